"""Index arithmetic over runs of different lengths that lie one after the other."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int, Int64


def bounds_of(lengths: Int[np.ndarray, " runs"]) -> Int64[np.ndarray, " bounds"]:
    """Return where each run starts, and at the end where the last one stops."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def ragged_arange(
    starts: Int[np.ndarray, " runs"], lengths: Int[np.ndarray, " runs"]
) -> Int64[np.ndarray, " items"]:
    """Return ``start, start + 1, ...`` of every run, one run after the other."""
    bounds = bounds_of(lengths)
    return np.repeat(starts - bounds[:-1], lengths) + np.arange(bounds[-1])


def block_bounds(offsets: Int64[np.ndarray, " bounds"], rows: int) -> list[int]:
    """Cut consecutive examples into runs of at most ``rows`` rows (or one example)."""
    bounds = [0]
    while bounds[-1] < offsets[-1]:
        last = int(np.searchsorted(offsets, bounds[-1] + rows, side="right")) - 1
        if offsets[last] == bounds[-1]:  # one example longer than a block
            last = int(np.searchsorted(offsets, bounds[-1], side="right"))
        bounds.append(int(offsets[last]))
    return bounds


@dataclass(frozen=True, eq=False)
class Ragged:
    """Runs of values of different lengths, one after the other.

    Attributes:
        values: the values of all runs.
        bounds: run i is ``values[bounds[i]:bounds[i + 1]]``.
    """

    values: Int64[np.ndarray, " items"]
    bounds: Int64[np.ndarray, " bounds"]

    @cached_property
    def lengths(self) -> Int64[np.ndarray, " runs"]:
        """Values of each run."""
        return np.diff(self.bounds)

    def take(self, runs: Int64[np.ndarray, " taken"]) -> "Ragged":
        """Return some runs, in the order given."""
        lengths = self.lengths[runs]
        values = self.values[ragged_arange(self.bounds[runs], lengths)]
        return Ragged(values, bounds_of(lengths))
