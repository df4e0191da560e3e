"""Cut a split into units: runs of examples that fill whole storage chunks of every array."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from probekit.base.kinds import ARRAYS
from probekit.base.numbers import bounds_of

UNIT_BYTES = 192 * 2**20
"""What one unit holds in memory at two bytes per value (so twice this where rows are gathered in
float32, see ``extraction/plan.py``); a second one is with the writer. A larger unit has more
windows of similar length, so its batches are larger, with less padding.
"""

UNIT_TOKENS = 2**17
"""Most subwords that one unit reads, about."""

_FEWEST_TOKENS = 2**13
"""Units of small texts read so many subwords: 2 seconds of MiniLM on two cores, 20 of MPNet."""

_MULTIPLICATIONS = 10**8
"""Of a subword, in the largest models whose units are of that size; BERT-base has 85 million."""

_UNITS = 64
"""Units of a text that is neither small nor very large."""

_ROOM = 3  # rows of another array that a unit has room for beside each word
_FEWEST = 16
_MOST_ROW_CHUNKS = 4096
_PER_UNIT = 4  # chunks of a unit at least, so that little of the last one stays unused


@dataclass(frozen=True, slots=True)
class Unit:
    """Examples that are computed and written together, and resumed or given to a machine as one.

    Attributes:
        index: 0, 1, ... in data-set order.
        start: first example.
        stop: one past the last example.
        row_start: per array, the unit's first row in storage, a multiple of the chunk's rows.
        rows: per array, how many rows the unit has; the rest of its last chunk is never read.
        chunks: per array, how many chunks those rows take.
    """

    index: int
    start: int
    stop: int
    row_start: Mapping[str, int]
    rows: Mapping[str, int]
    chunks: Mapping[str, int]


# Chunks of 4 rows of words and of 8 subwords, and units of at most 2 chunks of words:
#
#     example     0   1   2   3   4
#     words       3   4   2   5   2
#     subwords    4   6   3   7   2
#
# Examples 0 and 1 fit in 8 words, 2 does not. Stopping after example 0 would use 3 of 4 rows of
# words and 4 of 8 of subwords, after example 1 it is 7 of 8 and 10 of 16: the share is larger, so
# the unit holds both. Its last row of words, 7, is never read: a chunk belongs to one unit. Example
# 2 begins the next unit at row 8 of words and, after 2 chunks of subwords, at row 16 of those:
#
#     unit   examples   row_start             rows                  chunks
#     0      0, 1       words 0, tokens 0     words 7, tokens 10    2, 2
#     1      2, 3       words 8, tokens 16    words 7, tokens 10    2, 2
#     2      4          words 16, tokens 32   words 2, tokens 2     1, 1
def plan_units(
    rows: Mapping[str, Int64[np.ndarray, " examples"]],
    *,
    chunk_rows: Mapping[str, int],
    max_chunks: Mapping[str, int],
    weights: Mapping[str, float],
) -> list[Unit]:
    """Pack consecutive examples into units, so that little of the last chunks stays unused.

    A unit takes as many examples as its bounds allow, or stops earlier (but not below half)
    where a larger share of its chunks is then used. An example larger than a bound is a unit of
    its own.

    Args:
        rows: per array, the rows of each example.
        chunk_rows: per array, the rows of a chunk.
        max_chunks: per array, most chunks of a unit.
        weights: per array, what a slot costs (such as its bytes).

    Returns:
        Units that cover all examples in order. They depend on the arguments alone.
    """
    bounds = {name: bounds_of(lengths) for name, lengths in rows.items()}
    slots = {name: max_chunks[name] * chunk_rows[name] for name in rows}
    count = len(next(iter(bounds.values()))) - 1
    units: list[Unit] = []
    start, row_start = 0, dict.fromkeys(rows, 0)
    while start < count:
        beyond = min(
            np.searchsorted(bound, bound[start] + slots[name], side="right")
            for name, bound in bounds.items()
        )
        stop = max(int(beyond) - 1, start + 1)
        if stop < count:
            stop = _fullest(bounds, start, stop, chunk_rows, weights)
        taken = {name: int(bound[stop] - bound[start]) for name, bound in bounds.items()}
        chunks = {name: -(-taken[name] // chunk_rows[name]) for name in rows}
        units.append(Unit(len(units), start, stop, row_start=row_start, rows=taken, chunks=chunks))
        row_start = {name: row_start[name] + chunks[name] * chunk_rows[name] for name in rows}
        start = stop
    return units


def unit_share(tokens: int, n_blocks: int, dim: int) -> float:
    """Return what share of a text a unit computes at most, about.

    So a unit is a bounded amount of computing, whatever is kept of it: what a kill costs, and what
    shards are made of. It follows from text and model alone, so that every machine plans the same.

    Args:
        tokens: subwords of all examples.
        n_blocks: L, the number of transformer blocks.
        dim: D, the width.
    """
    work = 12 * n_blocks * dim**2  # multiplications of a subword in L blocks, without attention
    fewest = _FEWEST_TOKENS * 2.0 ** min(round(math.log2(_MULTIPLICATIONS / work)), 0)
    return min(max(tokens / _UNITS, fewest), UNIT_TOKENS) / max(tokens, 1)


def fit_chunk_rows(
    chunk_rows: Mapping[str, int],
    rows: Mapping[str, np.ndarray],
    row_bytes: Mapping[str, float],
    share: float,
) -> dict[str, int]:
    """Return sizes of chunks that units fill, and of which there are not too many.

    Units fill whole chunks, so a chunk holds no more than a unit computes. Beside words it is half
    as much: several chunks fit a unit better, since texts have any number of words. Chunks of which
    there would be very many are larger, as far as units hold several: each is a map for whoever
    reads the array, and a process has so many.

    Args:
        chunk_rows: per array, the rows of a chunk by its bytes alone.
        rows: per array, the rows of each example.
        row_bytes: per array, the bytes of a row over all its layers.
        share: of all examples, what a unit computes at most.
    """
    fitted = dict(chunk_rows)
    total = {name: int(lengths.sum()) for name, lengths in rows.items()}
    size = sum(row_bytes[name] * total[name] for name in rows)
    units, by_work = max(size / UNIT_BYTES, 1 / share, 1), max(1 / share, 1)
    parts = 2 if any(ARRAYS[name].per == "word" for name in rows) else 1
    for name in rows if units > 1 else ():
        per_unit = total[name] / (units if ARRAYS[name].per == "text" else by_work) / parts
        fitting = 2 ** round(math.log2(max(per_unit, _FEWEST)))
        fitted[name] = min(chunk_rows[name], fitting)
    for name in rows:
        most = total[name] / (_PER_UNIT * units)
        while total[name] > _MOST_ROW_CHUNKS * fitted[name] and 2 * fitted[name] <= most:
            fitted[name] *= 2
    return fitted


def max_chunks(
    chunk_rows: Mapping[str, int],
    rows: Mapping[str, np.ndarray],
    row_bytes: Mapping[str, float],
    share: float,
) -> dict[str, int]:
    """Bound a unit by its leading array, in bytes and in work; the others have room for its text.

    Args:
        chunk_rows: per array, the rows of a chunk.
        rows: per array, the rows of each example.
        row_bytes: per array, the bytes of a row over all its layers.
        share: of all examples, what a unit computes at most.
    """
    wide = [name for name in rows if not ARRAYS[name].last_only]
    leading = next(iter(wide or rows))
    total = {name: max(int(rows[name].sum()), 1) for name in rows}
    beside = sum(row_bytes[name] * total[name] for name in wide if name != leading)
    size = chunk_rows[leading] * (row_bytes[leading] + beside / total[leading])
    chunks = max(1, round(min(UNIT_BYTES / size, share * total[leading] / chunk_rows[leading])))
    count = chunks * chunk_rows[leading]
    of_words = ARRAYS[leading].per == "word"
    room = {name: _ROOM if of_words else 2 * total[name] / total[leading] for name in rows}
    others = {name: 1 + int(room[name] * count) // chunk_rows[name] for name in rows}
    return others | {leading: chunks}


def stored_rows(units: Sequence[Unit], chunk_rows: Mapping[str, int]) -> dict[str, int]:
    """Return the slots of each array, unused ones included."""
    return {n: sum(unit.chunks[n] for unit in units) * rows for n, rows in chunk_rows.items()}


def example_row_starts(
    units: Sequence[Unit], rows: Mapping[str, Int64[np.ndarray, " examples"]]
) -> dict[str, Int64[np.ndarray, " examples"]]:
    """Return, per array, the storage row at which each example starts."""
    starts = {}
    for name, lengths in rows.items():
        bounds = bounds_of(lengths)
        shifts = np.array([unit.row_start[name] - bounds[unit.start] for unit in units], np.int64)
        sizes = np.array([unit.stop - unit.start for unit in units], np.int64)
        starts[name] = bounds[:-1] + np.repeat(shifts, sizes)
    return starts


def _fullest(
    bounds: Mapping[str, Int64[np.ndarray, " bounds"]],
    start: int,
    stop: int,
    chunk_rows: Mapping[str, int],
    costs: Mapping[str, float],
) -> int:
    """Return the stop in the upper half whose chunks are used best; the latest of equals."""
    used = np.zeros(stop - start)
    paid = np.zeros(stop - start)
    for name, per_chunk in chunk_rows.items():
        filled = bounds[name][start + 1 : stop + 1] - bounds[name][start]
        used += costs[name] * filled
        paid += costs[name] * (-(-filled // per_chunk) * per_chunk)
    share: Float64[np.ndarray, " stops"] = used / np.maximum(paid, 1e-300)
    share[used < used[-1] / 2] = -1
    return start + len(share) - int(np.argmax(share[::-1]))
