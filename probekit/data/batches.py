"""Batches of windows under a budget of tokens: their ids, and which states make which rows."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int32, Int64
from torch import Tensor

from probekit.base.kinds import ARRAYS
from probekit.base.numbers import bounds_of, ragged_arange
from probekit.base.tensors import send
from probekit.data.encoded import EncodedSplit, Pooling
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


@dataclass(frozen=True)
class Picks:
    """Which positions of a batch make which rows of the output buffer.

    Attributes:
        source: positions in the batch's states seen as (B * T, D). Without ``counts``, one for
            each row; with them, each row's positions one after the other.
        target: row of the buffer that each pooled row is written to; no row twice.
        counts: how many positions each row averages, at least 1; ``None`` takes one position as
            it is.
        totals: for rows whose positions may lie in several batches: how many they are over all
            batches. What this batch has of a mean is then added to what the buffer holds.
    """

    source: Int64[Tensor, " picks"]
    target: Int64[Tensor, " rows"]
    counts: Int64[Tensor, " rows"] | None = None
    totals: Int64[Tensor, " rows"] | None = None

    @classmethod
    def of(cls, *arrays: Int64[np.ndarray, " _"]) -> Self:
        """Take over arrays: those of the attributes, in their order."""
        return cls(*map(torch.from_numpy, arrays))

    def to(self, states: torch.device, buffer: torch.device) -> "Picks":
        """Return the same, with indices where the states and the buffer are."""
        averages = (self.counts, self.totals)
        sent = (None if numbers is None else send(numbers, states) for numbers in averages)
        return Picks(send(self.source, states), send(self.target, buffer), *sent)


# The two sentences of `windows` are three windows, 0 to 2, of 4, 6 and 4 subwords. Windows of one
# length share a batch, so that none is padded: window 1 runs first and alone, then 0 and 2:
#
#     [ c d ~d e ]          the states of subwords 0 1 2 3 4 5
#
#     [ a b ]               0 1 2 3         states seen as (B * T, D): row 1 begins at T = 4
#     [ e f ]               4 5 6 7
#
# The words a b c dd e f have the rows 0 to 5, so the batches fill a buffer of six rows from their
# first (or last) subwords and, as `pooling` says, from the mean of both subwords of dd:
#
#     words, first          source 1 2 4      target 2 3 4     |  source 1 2 6    target 0 1 5
#     words, mean           source 1 2 3 4    counts 1 2 1     |  source 1 2 6    counts 1 1 1
#     tokens                source 0 to 5     target 4 to 9    |  source 0 to 7   target 0-3 10-13
#     cls                   source 0          target 1         |  source 0        target 0
#     last                  none                               |  source 3 7      target 0 1
#     mean of a text        source 0 1 2 3 4  target 1         |  source 0-3 6 7  target 0 1
#                           counts 5 of 7                      |  counts 4 of 4 and 2 of 7
#
# The second text's mean is added up over both batches, 5/7 of it from the first one.


@dataclass(frozen=True, kw_only=True)
class TokenBatch:
    """One input of the model, right-padded.

    Attributes:
        input_ids: vocabulary ids.
        lengths: real subwords of each row, at least 1.
        picks: per array, which states make which rows; rows are counted from the first one of the
            run of examples.
        windows: the number in its split of each row's window.
        token_types: which of two texts each subword belongs to; None where the model is not told.
    """

    input_ids: Int64[Tensor, "batch time"]
    lengths: Int64[Tensor, " batch"]
    picks: Mapping[str, Picks]
    windows: Int64[np.ndarray, " batch"]
    token_types: Int64[Tensor, "batch time"] | None = None

    def first(self, count: int) -> "TokenBatch":
        """Return its first windows, padded no further than they need, without picks."""
        lengths = self.lengths[:count]
        ids = self.input_ids[:count, : int(lengths.max())]
        types = None if self.token_types is None else self.token_types[:count, : ids.shape[1]]
        return TokenBatch(
            input_ids=ids,
            lengths=lengths,
            picks={},
            windows=self.windows[:count],
            token_types=types,
        )


def token_batches(
    split: EncodedSplit,
    start: int,
    stop: int,
    *,
    batch_tokens: int,
    pad_id: int,
    pooling: Pooling,
    arrays: Collection[str] = ("words", "tokens"),
    batching: Batching = PADDED,
    needed: Bool[np.ndarray, " windows"] | None = None,
) -> Iterator[TokenBatch]:
    """Yield the batches of the examples ``start`` to ``stop`` (excluded).

    They are a function of those examples and the options alone, never of the rest of the split.

    Args:
        split: all examples.
        start: first example.
        stop: one past the last example.
        batch_tokens: most tokens of a batch, padding included.
        pad_id: any id of the vocabulary; its states are never read.
        pooling: what makes a word's row: its first subword, its last, or their mean.
        arrays: names of the arrays that rows are made for.
        batching: which windows may share a batch.
        needed: which windows of the run are wanted; None is all of them.

    Raises:
        OptionError: ``batch_tokens`` is not positive.
    """
    run = _Run(split, start, stop)
    wanted = np.arange(len(run.lengths)) if needed is None else np.flatnonzero(needed)
    for chosen in batches_by_length(run.lengths[wanted], batch_tokens, batching):
        windows = wanted[chosen]
        yield TokenBatch(
            input_ids=run.padded(windows, split.subwords, pad_id),
            lengths=torch.from_numpy(run.lengths[windows].astype(np.int64)),
            picks={name: run.picks(name, windows, pooling) for name in arrays},
            windows=run.first_window + windows,
            token_types=None
            if split.token_types is None
            else run.padded(windows, split.token_types, 0),
        )


class _Run:
    """The windows, words and texts of a run of examples, counted from the run's first one."""

    def __init__(self, split: EncodedSplit, start: int, stop: int) -> None:
        windows = slice(int(split.example_windows[start]), int(split.example_windows[stop]))
        words = slice(int(split.example_words[start]), int(split.example_words[stop]))
        self.first_window = windows.start
        self._split = split
        self._span = slice(int(split.example_tokens[start]), int(split.example_tokens[stop]))
        self.lengths = split.window_lengths[windows]
        self._bounds = bounds_of(self.lengths)
        self._example_windows = split.example_windows[start : stop + 1] - windows.start
        places = split.word_places
        self._first, self._last = places.first[words], places.last[words]
        # negative, so before every window, for a word without subwords
        owner = places.window[words].astype(np.int64) - windows.start
        self._words = np.argsort(owner, kind="stable")
        self._word_bounds = np.searchsorted(owner[self._words], np.arange(len(self.lengths) + 1))

    def padded(
        self, windows: Int64[np.ndarray, " batch"], values: Int32[np.ndarray, " all"], fill: int
    ) -> Int64[Tensor, "batch time"]:
        lengths = self.lengths[windows]
        ids = np.full((len(windows), int(lengths.max())), fill, np.int64)
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = values[self._span][self._tokens(windows)]
        return torch.from_numpy(ids)

    def picks(self, name: str, windows: Int64[np.ndarray, " batch"], pooling: Pooling) -> Picks:
        array = ARRAYS[name]
        # where each window starts in the batch's states seen as (B * T, D)
        starts = np.arange(len(windows)) * int(self.lengths[windows].max())
        if array.per == "subword":
            positions, tokens = ragged_arange(starts, self.lengths[windows]), self._tokens(windows)
            if self._split.kept is None:
                return Picks.of(positions, tokens)
            kept = self._split.kept[self._span]
            return Picks.of(positions[kept[tokens]], (np.cumsum(kept) - 1)[tokens[kept[tokens]]])
        if array.averages:
            return self._mean_picks(windows, starts)
        if array.per == "text":
            return self._end_picks(windows, starts, first=array.end == "first")
        counts = self._word_bounds[windows + 1] - self._word_bounds[windows]
        words = self._words[ragged_arange(self._word_bounds[windows], counts)]
        row_starts = np.repeat(starts, counts)
        if pooling != "mean":
            position = self._first if pooling == "first" else self._last
            return Picks.of(row_starts + position[words], words)
        sizes = (self._last - self._first + 1)[words].astype(np.int64)
        return Picks.of(ragged_arange(row_starts + self._first[words], sizes), words, sizes)

    def _end_picks(
        self, windows: Int64[np.ndarray, " batch"], starts: Int64[np.ndarray, " batch"], first: bool
    ) -> Picks:
        """Pick the first token of each text's first window, or the last one of its last window."""
        edge = self._example_windows[:-1] if first else self._example_windows[1:] - 1
        example = self._examples[windows]
        at_edge = edge[example] == windows
        source = starts + (0 if first else self.lengths[windows] - 1)
        return Picks.of(source[at_edge], example[at_edge])

    def _mean_picks(
        self, windows: Int64[np.ndarray, " batch"], starts: Int64[np.ndarray, " batch"]
    ) -> Picks:
        """Pick the tokens of each text's mean; a text's windows may lie in several batches."""
        windows_by_text = np.argsort(windows)  # a text's windows lie side by side
        starts, windows = starts[windows_by_text], windows[windows_by_text]
        owner = np.repeat(self._examples[windows], self.lengths[windows])
        read = self._averages[self._tokens(windows)]
        source = ragged_arange(starts, self.lengths[windows])[read]
        target, counts = np.unique(owner[read], return_counts=True)
        return Picks.of(source, target, counts, self._totals[target])

    @cached_property
    def _examples(self) -> Int64[np.ndarray, " windows"]:
        """The example of each window."""
        return np.repeat(np.arange(len(self._example_windows) - 1), np.diff(self._example_windows))

    @cached_property
    def _averages(self) -> Bool[np.ndarray, " subwords"]:
        """Which subwords the means read."""
        averaged = self._split.averaged
        return np.ones(self._bounds[-1], bool) if averaged is None else averaged[self._span]

    @cached_property
    def _totals(self) -> Int64[np.ndarray, " examples"]:
        """How many subwords each example's mean reads."""
        owner = np.repeat(self._examples, self.lengths)
        return np.bincount(owner[self._averages], minlength=len(self._example_windows) - 1)

    def _tokens(self, windows: Int64[np.ndarray, " batch"]) -> Int64[np.ndarray, " tokens"]:
        return ragged_arange(self._bounds[windows], self.lengths[windows])


def pool(
    hidden: Float[Tensor, "batch time dim"], picks: Picks, out: Float[Tensor, "slots dim"]
) -> None:
    """Write one layer's pooled rows of a batch into ``out``; rows that are not picked stay.

    Rows of words that the tokenizer deletes never are, and parts of a mean are added up: start
    from a buffer of zeros.

    Args:
        hidden: one layer's states, right-padded.
        picks: made for this batch; its ``target`` counts rows of ``out``.
        out: the unit's buffer for this layer, of any float dtype and on any device. A value too
            large for that dtype becomes infinite; checking is the caller's task. Of float32 for a
            mean over several batches (``totals``).
    """
    if not len(picks.target):
        return
    picked = hidden.flatten(0, 1).index_select(0, picks.source)
    if picks.counts is not None:
        # a float32 sum in order, without atomic additions, so that it repeats bit for bit; `unsafe`
        # skips a check of the counts that would make a GPU wait
        picked = torch.segment_reduce(
            picked.float(), "mean", lengths=picks.counts, axis=0, unsafe=True
        )
    if picks.counts is None or picks.totals is None:
        out.index_copy_(0, picks.target, picked.to(device=out.device, dtype=out.dtype))
        return
    assert out.dtype in (torch.float32, torch.float64), "parts of a mean add up in full precision"
    share = picks.counts.double() / picks.totals.double()
    part = picked * share[:, None].to(picked.dtype)
    # no row is picked twice, so the order of additions is that of the batches
    out.index_add_(0, picks.target, part.to(device=out.device, dtype=out.dtype))
