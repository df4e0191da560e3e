"""What an extraction will write, how long it takes, and whether the disk holds it."""

from collections.abc import Mapping
from pathlib import Path

from probekit.base.notices import human_bytes, human_time
from probekit.errors import StorageError
from probekit.extraction.plan import Plan
from probekit.store.files import free_bytes


def describe_work(
    split: str, plan: Plan, folder: Path, tokens_per_second: float, begun: float = 0.0
) -> str:
    """Return one line for people: what is read, what is written and where, and the time it takes.

    Args:
        split: the split's name.
        plan: the layout.
        folder: the entry's folder.
        tokens_per_second: measured speed of the forward pass.
        begun: share of the subwords that an earlier run has done.
    """
    counts = plan.encoded.counts
    arrays = " and ".join(
        f"{plan.encoded.rows[name].sum():,} {name} x {_layers(len(array.layers))} x {array.dim}"
        for name, array in plan.arrays.items()
    )
    seconds = (1 - begun) * counts["tokens"] / tokens_per_second
    there = f"; {begun:.0%} of it is there already" if begun >= 0.005 else ""
    return (
        f"{split}: {counts['examples']:,} examples; writing {arrays} "
        f"({human_bytes(plan.nbytes)}) to {folder} in about "
        f"{human_time(seconds)} ({tokens_per_second:,.0f} tokens/s){there}"
    )


def describe_cuts(split: str, counts: Mapping[str, int], limit: int) -> str | None:
    """Return what a split loses to the limit, for people; None if it loses nothing.

    Args:
        split: the split's name.
        counts: of its manifest.
        limit: most subwords of a window.
    """
    if texts := counts.get("truncated_examples"):
        return f"{split}: {texts:,} of {counts['examples']:,} texts are cut at {limit} subwords."
    if words := counts.get("truncated_words"):
        return (
            f"{split}: {words:,} of {counts['words']:,} words do not fit into windows of {limit} "
            "subwords. What is cut off a word takes no part in its states; a word that is cut off "
            "whole has none: it is not trained on, and counts in scoring as any other word, with a "
            "row of zeros."
        )
    return None


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"


def check_free_space(folder: Path, needed: int) -> None:
    """Refuse to start when the disk cannot hold the entry.

    Args:
        folder: where the entry will be built; it need not exist yet.
        needed: bytes still to be written.

    Raises:
        StorageError: fewer than ``needed`` bytes are free.
    """
    free = free_bytes(folder)
    if free < needed:
        raise StorageError(
            f"the disk of {folder} has {human_bytes(free)} free, and this extraction writes "
            f"{human_bytes(needed)}. Free some space, choose another --cache, or store less: "
            "--dtype int8 halves it, --layers and --limit narrow it."
        )
