"""Which array of an entry holds the rows of a label column, and which of its rows they are."""

import numpy as np
from jaxtyping import Bool, Int64

from probekit.base.kinds import ARRAYS, KINDS, POOLED
from probekit.base.numbers.ragged import bounds_of, ragged_arange
from probekit.errors import DataError, OptionError
from probekit.store import Entry
from probekit.tasks import KindName

PIECE_ROWS = 64
"""Rows of a text that language modelling batches, draws and resamples as one example."""


def choose_array(entry: Entry, kind: KindName, pooling: str | None) -> str:
    """Return the array that a label column of some kind is predicted from.

    Args:
        entry: of some split.
        kind: of the label column.
        pooling: one of ``POOLED``, for labels of whole texts; ``None`` is the mean of all
            tokens of a bidirectional model and the last token of a causal one.

    Raises:
        OptionError: a pooling that does not exist, or for labels of single words.
        DataError: the entry does not hold the array.
    """
    fixed = KINDS[kind].own_rows
    if pooling is not None and fixed is not None:
        raise OptionError(
            f"--pooling {pooling} chooses a row for a whole text; these labels ({kind}) have rows "
            "of their own."
        )
    if pooling is not None and pooling not in POOLED:
        raise OptionError(f"--pooling {pooling!r} is none of: {', '.join(POOLED)}.")
    array = fixed or pooling or ("last" if entry.manifest.causal else "mean")
    if array not in entry.arrays:
        raise DataError(f"the cache has no {array!r} rows: {missing_array(entry, array)}")
    return array


def settled_array(kind: KindName, pooling: str | None) -> str:
    """Return the array of a run's rows, given the row of whole texts that was settled, if any."""
    array = pooling or KINDS[kind].own_rows
    assert array is not None, "a pooling is settled for labels of whole texts"
    return array


def missing_array(entry: Entry, array: str) -> str:
    """Return what an entry holds instead of an array, and how to get it, for messages."""
    return f"{entry.path} {entry.manifest.lacking(array)}"


def example_rows(
    entry: Entry, array: str
) -> tuple[Int64[np.ndarray, " rows"], Int64[np.ndarray, " bounds"], Bool[np.ndarray, " rows"]]:
    """Return the rows of an array, the bounds of each example in them, and which are valid."""
    examples = entry.examples
    if ARRAYS[array].per == "text":
        rows = examples.pooled_start.astype(np.int64)
        return rows, np.arange(len(rows) + 1), np.ones(len(rows), bool)
    return examples.rows, bounds_of(examples.n_rows), examples.valid


def cut_pieces(
    bounds: Int64[np.ndarray, " bounds"], size: int = PIECE_ROWS
) -> tuple[Int64[np.ndarray, " finer"], Int64[np.ndarray, " pieces"]]:
    """Cut examples into pieces of at most ``size`` rows.

    Returns:
        The bounds of the pieces, and the example of each.
    """
    lengths = np.diff(bounds)
    counts = -(-lengths // size)
    owner = np.repeat(np.arange(len(lengths)), counts)
    starts = bounds[owner] + size * ragged_arange(np.zeros_like(counts), counts)
    return np.concatenate([starts, bounds[-1:]]), owner
