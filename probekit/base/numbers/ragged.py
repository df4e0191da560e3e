"""Index arithmetic over runs of different lengths that lie one after the other."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int, Int64

# Three sentences of 3, 1 and 2 words, one after the other; their rows in an array begin at 10, 0
# and 5:
#
#   bounds_of([3, 1, 2])                  [0, 3, 4, 6]     sentence i is bounds[i] : bounds[i + 1]
#   ragged_arange([10, 0, 5], [3, 1, 2])  [10, 11, 12, 0, 5, 6]
#
# The latter counts 0 to 5 and adds to each item what its sentence is off: 10 - 0, 0 - 3 and 5 - 4.
#
#   block_bounds([0, 3, 4, 6], rows=4)    [0, 4, 6]        two sentences, one sentence
#   block_bounds([0, 3, 4, 6], rows=2)    [0, 3, 4, 6]     the first is longer than a block: alone
#
#   Ragged([7, 8, 9, 4, 5, 6], [0, 3, 4, 6]).take([2, 0])  is  Ragged([5, 6, 7, 8, 9], [0, 2, 5])


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
