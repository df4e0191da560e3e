"""Parse layer choices such as ``all``, ``-1``, ``0,4,8`` and ``0:25:4``.

Layer ``i`` is HuggingFace's ``hidden_states[i]``: 0 is the embeddings, 1..L the block outputs.
"""

from probekit.errors import OptionError


def parse_layers(text: str, n_blocks: int) -> tuple[int, ...]:
    """Return the layers that ``text`` names, ascending, each once.

    Args:
        text: comma-separated items; each is ``all``, a layer number, or a slice
            ``start:stop:step`` with Python's meaning (stop excluded). Negative numbers count
            from the end, so ``-1`` is layer L.
        n_blocks: L, the number of transformer blocks; layers run from 0 to L.

    Raises:
        OptionError: an item is malformed, out of range, or selects nothing.
    """
    count = n_blocks + 1
    chosen: set[int] = set()
    for item in text.split(","):
        picked = _parse_item(item.strip(), count, text)
        if not picked:
            raise OptionError(
                f"layers {text!r}: {item.strip()!r} selects no layer of 0..{n_blocks}."
            )
        chosen.update(picked)
    return tuple(sorted(chosen))


def _parse_item(item: str, count: int, text: str) -> range:
    if item == "all":
        return range(count)
    try:
        numbers = [int(part) if part.strip() else None for part in item.split(":")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3 or numbers == [None] or (len(numbers) == 3 and numbers[2] == 0):
        raise OptionError(
            f"layers {text!r}: cannot read {item!r}. Write 'all', a number such as '-1', "
            "a list '0,4,8' or a slice '0:25:4'."
        )
    if len(numbers) > 1:
        for bound in numbers[:2]:
            if bound is not None and not -count <= bound <= count:
                raise OptionError(
                    f"layers {text!r}: {bound} is outside this model's layers 0 (embeddings) "
                    f"to {count - 1} (a slice may stop at {count})."
                )
        return range(count)[slice(*numbers)]
    number = numbers[0]
    assert number is not None
    if not -count <= number < count:
        raise OptionError(
            f"layers {text!r}: layer {number} does not exist; this model has layers "
            f"0 (embeddings) to {count - 1}."
        )
    return range(number % count, number % count + 1)


def up_to_depth(layers: tuple[int, ...], depth: int) -> tuple[int, ...]:
    """Cut a head's layers to the first ``depth`` blocks.

    Returns the layers that are at most ``depth``; when none is left, layer ``depth`` itself
    (so ``last`` at depth n reads layer n, and every head at depth 0 reads the embeddings).
    """
    return tuple(layer for layer in layers if layer <= depth) or (depth,)
