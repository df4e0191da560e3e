"""Hold out a seeded part of a split, for text that has no dev split of its own."""

from collections.abc import Sequence

from probekit.errors import OptionError
from probekit.seeding import numpy_generator
from probekit.tasks.split import Split


def hold_out(split: Split, amount: float | int, seed: int) -> tuple[Split, Split]:
    """Divide a split into what remains ("train") and what is held out ("dev").

    The draw is uniform without replacement and a function of the seed and the split's length
    alone; both parts keep the order, the ids and the labels of the original.

    Args:
        split: N examples.
        amount: a float between 0 and 1 is the fraction to hold out (at least one example), an
            int the number of examples.
        seed: of the draw.

    Raises:
        OptionError: nothing would be held out, or nothing would remain.
    """
    total = len(split.examples)
    count = _count(amount, total)
    if not 0 < count < total:
        raise OptionError(
            f"cannot hold out {amount} of the {total} examples of split {split.name!r} of "
            f"{split.task}; expected a fraction between 0 and 1, or 1 to {total - 1} examples."
        )
    drawn = numpy_generator(seed, "hold-out").choice(total, count, replace=False)
    held = set(drawn.tolist())
    rest = [number for number in range(total) if number not in held]
    how = f"hold-out {amount}, seed {seed}"
    return (
        _part(split, "train", rest, f"{split.origin}, without {how}"),
        _part(split, "dev", sorted(held), f"{split.origin}, {how}"),
    )


def _count(amount: float | int, total: int) -> int:
    """Return the number of examples that ``amount`` means; 0 for a fraction outside 0..1."""
    if not isinstance(amount, float):
        return amount
    return max(1, round(amount * total)) if 0.0 < amount < 1.0 else 0


def _part(split: Split, name: str, numbers: Sequence[int], origin: str) -> Split:
    return Split(
        task=split.task,
        name=name,
        examples=tuple(split.examples[number] for number in numbers),
        labels={
            column: tuple(rows[number] for number in numbers)
            for column, rows in split.labels.items()
        },
        origin=origin,
    )
