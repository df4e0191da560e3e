"""Index arithmetic over runs of different lengths that lie one after the other."""

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
