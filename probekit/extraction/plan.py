"""What an extraction will write: the split as the model reads it, its arrays, and its units.

A unit is a run of examples that fills whole storage chunks of every array.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from jaxtyping import Float64, Int64

from probekit.base.kinds import ARRAYS
from probekit.base.numbers import bounds_of
from probekit.base.registry import choose
from probekit.data.encoded import EncodedSplit, Pooling
from probekit.extraction.request import Request
from probekit.store.backends import BACKENDS
from probekit.store.codec import TORCH_DTYPES
from probekit.store.layout import ArraySpec, FeatureDtype, chunk_rows_for
from probekit.store.mapping import check_mappable

UNIT_BYTES = 192 * 2**20
"""What one unit holds in memory at two bytes per value (so twice this where rows are gathered in
float32, see `row_dtypes`); a second one is with the writer. A larger unit has more
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """The layout of one entry, a function of text, model and options alone.

    Attributes:
        encoded: the split as the model reads it.
        arrays: array descriptions by name, in the resolved dtype.
        dtype: what all arrays are stored as.
        units: units in data-set order.
        pooling: which subwords make a word's row.
        batch_tokens: padded tokens per batch.
        attention_heads: how many lie side by side in ``z``; None without it, or if their widths
            differ.
    """

    encoded: EncodedSplit
    arrays: Mapping[str, ArraySpec]
    dtype: FeatureDtype
    units: list[Unit]
    pooling: Pooling
    batch_tokens: int
    attention_heads: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes on disk, the unused tails of units included."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def tokens(self) -> int:
        """Subwords that the model reads, special tokens and overlaps included."""
        return len(self.encoded.subwords)

    @property
    def layers(self) -> dict[str, tuple[int, ...]]:
        """The layers that each array stores, ascending."""
        return {name: array.layers for name, array in self.arrays.items()}

    @property
    def largest_first(self) -> list[Unit]:
        """The units in the order in which they are computed, those with most subwords first.

        Each is written while the model runs over the next; nothing hides the writing of the last.
        """
        return sorted(self.units, key=lambda unit: -self.unit_tokens(unit))

    def with_dtype(self, dtype: FeatureDtype) -> "Plan":
        """Return the same layout for another dtype of the same width."""
        arrays = {name: replace(array, dtype=dtype) for name, array in self.arrays.items()}
        assert sum(array.nbytes for array in arrays.values()) == self.nbytes
        return replace(self, arrays=arrays, dtype=dtype)

    def unit_tokens(self, unit: Unit) -> int:
        """Return how many subwords the model reads for a unit."""
        bounds = self.encoded.example_tokens
        return int(bounds[unit.stop] - bounds[unit.start])

    def describe_unit(self, unit: Unit) -> str:
        """Return the unit's examples, for messages."""
        ids = self.encoded.ids
        return f"examples {ids[unit.start]} to {ids[unit.stop - 1]}"


def make_plan(encoded: EncodedSplit, request: Request) -> Plan:
    """Settle the layout of an entry; ``--dtype auto`` is planned as float16 (`Plan.with_dtype`).

    Args:
        encoded: the split as the model reads it.
        request: what is asked for.

    Raises:
        OptionError: a process could not map so many files.
    """
    info, options, places = request.info, request.options, request.places
    layers = request.layers_of
    dtype = cast(FeatureDtype, "float16" if options.dtype == "auto" else options.dtype)
    widths = {point: place.width or info.dim for point, place in places.items()}
    arrays, units = lay_out(
        {name: encoded.rows[name] for name in layers},
        layers,
        {name: widths.get(ARRAYS[name].point, info.dim) for name in layers},
        dtype,
        unit_share(len(encoded.subwords), info.n_blocks, info.dim),
    )
    check_mappable(choose("backend", options.format, BACKENDS), arrays.values())
    return Plan(
        encoded=encoded,
        arrays=arrays,
        dtype=dtype,
        units=units,
        pooling=request.pooling or "first",  # a word of one row is that row in any way
        batch_tokens=options.batch_tokens,
        attention_heads=places["z"].heads if "z" in places else None,
    )


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


def lay_out(
    rows: Mapping[str, Int64[np.ndarray, " examples"]],
    layers: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, int],
    dtype: FeatureDtype,
    share: float,
) -> tuple[dict[str, ArraySpec], list[Unit]]:
    """Lay out the arrays and units of an entry.

    Args:
        rows: per array, the rows of each example.
        layers: per array, its layers.
        dims: per array, its width.
        dtype: how rows are stored.
        share: of all examples, what a unit computes at most.
    """
    row_bytes = {name: len(layers[name]) * dims[name] * 2.0 for name in rows}
    total = {name: int(lengths.sum()) for name, lengths in rows.items()}
    chunk_rows = {}
    for name in rows:  # alike where rows are, so that one column tells where these begin
        widest = max(dims[other] for other in rows if ARRAYS[other].per == ARRAYS[name].per)
        chunk_rows[name] = chunk_rows_for(widest, dtype, total[name])
    chunk_rows = _fit_chunk_rows(chunk_rows, total, row_bytes, share)
    max_chunks = _max_chunks(chunk_rows, total, row_bytes, share)
    units = plan_units(rows, chunk_rows=chunk_rows, max_chunks=max_chunks, weights=row_bytes)
    arrays = {
        name: ArraySpec(
            name=name,
            rows=sum(unit.chunks[name] for unit in units) * chunk_rows[name],
            layers=layers[name],
            dim=dims[name],
            dtype=dtype,
            chunk_rows=chunk_rows[name],
        )
        for name in rows
    }
    return arrays, units


# The arguments of both are by array: the rows of a chunk, the rows of all examples, the bytes of a
# row over all its layers; and of all examples the share that a unit computes at most.


def _fit_chunk_rows(
    chunk_rows: Mapping[str, int],
    total: Mapping[str, int],
    row_bytes: Mapping[str, float],
    share: float,
) -> dict[str, int]:
    """Return sizes of chunks that units fill, and of which there are not too many.

    Units fill whole chunks, so a chunk holds no more than a unit computes. Beside words it is half
    as much: several chunks fit a unit better, since texts have any number of words. Chunks of which
    there would be very many are larger, as far as units hold several: each is a map for whoever
    reads the array, and a process has so many.
    """
    fitted = dict(chunk_rows)
    size = sum(row_bytes[name] * count for name, count in total.items())
    units, by_work = max(size / UNIT_BYTES, 1 / share, 1), max(1 / share, 1)
    parts = 2 if any(ARRAYS[name].per == "word" for name in total) else 1
    for name, count in total.items():
        if units > 1:
            per_unit = count / (units if ARRAYS[name].per == "text" else by_work) / parts
            fitted[name] = min(fitted[name], 2 ** round(math.log2(max(per_unit, _FEWEST))))
        most = count / (_PER_UNIT * units)
        while count > _MOST_ROW_CHUNKS * fitted[name] and 2 * fitted[name] <= most:
            fitted[name] *= 2
    return fitted


def _max_chunks(
    chunk_rows: Mapping[str, int],
    total: Mapping[str, int],
    row_bytes: Mapping[str, float],
    share: float,
) -> dict[str, int]:
    """Bound a unit by its leading array, in bytes and work; the others have room for its text."""
    wide = [name for name in total if not ARRAYS[name].last_only]
    leading = next(iter(wide or total))
    rows = max(total[leading], 1)
    beside = sum(row_bytes[name] * max(total[name], 1) for name in wide if name != leading)
    size = chunk_rows[leading] * (row_bytes[leading] + beside / rows)
    chunks = max(1, round(min(UNIT_BYTES / size, share * rows / chunk_rows[leading])))
    count = chunks * chunk_rows[leading]
    of_words = ARRAYS[leading].per == "word"
    room = {n: _ROOM if of_words else 2 * max(other, 1) / rows for n, other in total.items()}
    others = {name: 1 + int(room[name] * count) // chunk_rows[name] for name in total}
    return others | {leading: chunks}


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


def row_dtypes(
    array: ArraySpec, compute_dtype: torch.dtype, pooling: Pooling
) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtype that holds rows as the model has them, and the one they are gathered in.

    The first holds their averages as well. The second is the stored one where that is narrower; but
    int8 needs whole chunks, and a mean adds up over the windows of its text: both are gathered as
    the model has them.
    """
    kind = ARRAYS[array.name]
    averages = kind.averages or (kind.per == "word" and pooling == "mean")
    exact = torch.float32 if averages else compute_dtype
    if array.dtype == "int8" or kind.averages:
        return exact, exact
    return exact, min(exact, TORCH_DTYPES[array.dtype], key=lambda dtype: dtype.itemsize)
