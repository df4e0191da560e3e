"""Cut a split into units: runs of examples that fill whole storage chunks of every array."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from probekit.base.numbers.ragged import bounds_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """The piece of work that is written whole, and resumed or given to a machine as one.

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


def plan_units(
    rows: Mapping[str, Int64[np.ndarray, " examples"]],
    *,
    chunk_rows: Mapping[str, int],
    max_chunks: Mapping[str, int],
    weights: Mapping[str, float] | None = None,
) -> list[Unit]:
    """Pack consecutive examples into units, so that little of the last chunks stays unused.

    A unit takes as many examples as its bounds allow, or stops earlier (but not below half)
    where a larger share of its chunks is then used. An example larger than a bound is a unit of
    its own.

    Args:
        rows: per array, the rows of each example.
        chunk_rows: per array, the rows of a chunk.
        max_chunks: per array, most chunks of a unit.
        weights: per array, what a slot costs (such as its bytes); equal if not given.

    Returns:
        Units that cover all examples in order. They depend on the arguments alone.
    """
    bounds = {name: bounds_of(lengths) for name, lengths in rows.items()}
    slots = {name: max_chunks[name] * chunk_rows[name] for name in rows}
    costs = dict.fromkeys(rows, 1.0) if weights is None else weights
    count = len(next(iter(bounds.values()))) - 1
    units: list[Unit] = []
    start, place = 0, dict.fromkeys(rows, 0)
    while start < count:
        stop = min(_fitting(bounds[name], start, slots[name]) for name in rows)
        if stop < count:
            stop = _fullest(bounds, start, stop, chunk_rows, costs)
        unit = _unit(len(units), start, stop, place, bounds, chunk_rows)
        units.append(unit)
        place = {name: place[name] + unit.chunks[name] * chunk_rows[name] for name in rows}
        start = stop
    return units


def stored_rows(units: Sequence[Unit], chunk_rows: Mapping[str, int]) -> dict[str, int]:
    """Return the slots of each array, unused ones included."""
    return {
        name: sum(unit.chunks[name] for unit in units) * per_chunk
        for name, per_chunk in chunk_rows.items()
    }


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


def _fitting(bounds: Int64[np.ndarray, " bounds"], start: int, slots: int) -> int:
    """Return one past the last example that fits, but at least one past ``start``."""
    stop = int(np.searchsorted(bounds, bounds[start] + slots, side="right")) - 1
    return max(stop, start + 1)


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


def _unit(
    index: int,
    start: int,
    stop: int,
    place: Mapping[str, int],
    bounds: Mapping[str, Int64[np.ndarray, " bounds"]],
    chunk_rows: Mapping[str, int],
) -> Unit:
    rows = {name: int(bound[stop] - bound[start]) for name, bound in bounds.items()}
    return Unit(
        index=index,
        start=start,
        stop=stop,
        row_start=dict(place),
        rows=rows,
        chunks={name: -(-rows[name] // chunk_rows[name]) for name in rows},
    )
