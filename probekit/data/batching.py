"""Group windows of similar length into batches under a budget of padded tokens."""

from bisect import bisect_right
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from jaxtyping import Int, Int64

from probekit.errors import OptionError

_OVERHEAD = 64
"""What a batch costs beyond its tokens, one token in so many of the budget.

On a CPU, reading the weights costs what some tens of tokens do (``benchmarks/batching.py``); the
default budget of 4,096 counts 64. Where a larger budget is right, as on a GPU, the next batch costs
more tokens as well.
"""


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Which windows may share a batch, so that none changes the states of another.

    Attributes:
        padded_to: windows of up to so many subwords are padded to a common length; 0 for none,
            None for all.
        alone: longer ones run one at a time, instead of beside others of their own length.
    """

    padded_to: int | None = None
    alone: bool = False


PADDED = Batching()
"""Any windows together: padding changes nothing."""


def batches_by_length(
    lengths: Int[np.ndarray, " windows"], batch_tokens: int, batching: Batching = PADDED
) -> list[Int64[np.ndarray, " _"]]:
    """Return batches of window numbers, the longest windows first.

    The result depends on the arguments alone. Batches are cut where they cost nearly the least
    altogether: padding costs what real tokens cost, and every batch a little more. Long before
    short means that a budget too large for the memory fails in the first batch.

    Args:
        lengths: subwords of each window.
        batch_tokens: most tokens of a batch, padding included; a longer window is a batch alone.
        batching: which windows may share a batch.

    Raises:
        OptionError: ``batch_tokens`` is not positive.
    """
    if batch_tokens < 1:
        raise OptionError(f"--batch-tokens must be at least 1; found {batch_tokens}.")
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    widths = np.maximum(lengths[order], 1)
    apart = 0 if batching.padded_to is None else int((widths > batching.padded_to).sum())
    # those apart share a batch with others of their own length, or with none: a budget of one token
    budget = 1 if batching.alone else batch_tokens
    _, starts, counts = np.unique(-widths[:apart], return_index=True, return_counts=True)
    cuts: list[int] = []
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        cuts += range(start, start + count, max(budget // int(widths[start]), 1))
    cuts += [apart + cut for cut in _cheapest_cuts(widths[apart:], batch_tokens)]
    return [order[start:stop] for start, stop in pairwise(cuts)]


def _cheapest_cuts(widths: Int[np.ndarray, " windows"], batch_tokens: int) -> list[int]:
    """Return the bounds of the batches, the first and the last included.

    The cheapest path from the first window to the end, where a batch ends when it is full or when
    the next window is shorter.

    Args:
        widths: lengths, in descending order.
        batch_tokens: the budget.
    """
    end = len(widths)
    overhead = batch_tokens / _OVERHEAD
    shorter = [*(np.flatnonzero(np.diff(widths)) + 1).tolist(), end]
    cost, before = {0: 0.0}, {0: 0}
    waiting = [0]
    while (start := heappop(waiting)) < end:
        width = int(widths[start])
        full = min(start + max(batch_tokens // width, 1), end)
        stops = shorter[bisect_right(shorter, start) : bisect_right(shorter, full)]
        for stop in (*stops, full):
            through = cost[start] + width * (stop - start) + overhead
            if stop not in cost:
                heappush(waiting, stop)
            if stop not in cost or through < cost[stop]:
                cost[stop], before[stop] = through, start
    cuts = [end]
    while cuts[-1] > 0:
        cuts.append(before[cuts[-1]])
    return cuts[::-1]
