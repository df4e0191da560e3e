"""Group windows of similar length into batches under a budget of padded tokens."""

import math

import numpy as np
from jaxtyping import Int, Int64

from probekit.errors import OptionError

# A batch ends where windows are shorter than this share of its longest one, once it holds this
# share of the budget. Measured on CoNLL-2003 in units of 1,400 sentences and batches of 8,192
# tokens: 92 % of the computed tokens are real, against 74 % when every batch is filled up.
_SIMILAR = 0.85
_ENOUGH = 0.125


def batches_by_length(
    lengths: Int[np.ndarray, " windows"], batch_tokens: int
) -> list[Int64[np.ndarray, " _"]]:
    """Return batches of window numbers, the longest windows first.

    The result depends on the arguments alone. A batch is filled up to the budget, or ends earlier
    where the next windows would be mostly padding. Long before short means that a budget too large
    for the memory fails in the first batch.

    Args:
        lengths: subwords of each window.
        batch_tokens: most tokens of a batch, padding included; a longer window is a batch alone.

    Raises:
        OptionError: ``batch_tokens`` is not positive.
    """
    if batch_tokens < 1:
        raise OptionError(f"--batch-tokens must be at least 1; found {batch_tokens}.")
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    descending = lengths[order]
    batches, start = [], 0
    while start < len(order):
        stop = _batch_stop(descending, start, batch_tokens)
        batches.append(order[start:stop])
        start = stop
    return batches


def _batch_stop(descending: Int[np.ndarray, " windows"], start: int, batch_tokens: int) -> int:
    width = max(int(descending[start]), 1)
    full = start + max(batch_tokens // width, 1)
    enough = start + math.ceil(_ENOUGH * batch_tokens / width)
    similar = int(np.searchsorted(-descending, -_SIMILAR * width, side="right"))
    return min(full, max(similar, enough), len(descending))
