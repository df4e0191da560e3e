"""Batches of a run of examples: input ids, lengths, and which states make which rows."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from probekit.data.batching import batches_by_length
from probekit.data.encoded import EncodedSplit
from probekit.pooling import Pooling, PoolPlan
from probekit.ragged import bounds_of, ragged_arange


@dataclass(frozen=True, kw_only=True)
class TokenBatch:
    """One input of the model, right-padded.

    Attributes:
        input_ids: vocabulary ids.
        lengths: real subwords of each row, at least 1.
        plans: per array (``words``, ``tokens``), which states make which rows; rows are counted
            from the first one of the run of examples.
    """

    input_ids: Int64[Tensor, "batch time"]
    lengths: Int64[Tensor, " batch"]
    plans: Mapping[str, PoolPlan]


def token_batches(
    split: EncodedSplit,
    start: int,
    stop: int,
    *,
    batch_tokens: int,
    pad_id: int,
    pooling: Pooling,
    arrays: Collection[str] = ("words", "tokens"),
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
        arrays: which plans to make.

    Raises:
        OptionError: ``batch_tokens`` is not positive.
    """
    run = _Run(split, start, stop)
    for windows in batches_by_length(run.lengths, batch_tokens):
        plans = {}
        if "words" in arrays:
            plans["words"] = run.word_plan(windows, pooling)
        if "tokens" in arrays:
            plans["tokens"] = run.token_plan(windows)
        yield TokenBatch(
            input_ids=torch.from_numpy(run.padded(windows, pad_id)),
            lengths=torch.from_numpy(run.lengths[windows].astype(np.int64)),
            plans=plans,
        )


class _Run:
    """The windows and words of a run of examples, both counted from the run's first one."""

    def __init__(self, split: EncodedSplit, start: int, stop: int) -> None:
        windows = slice(int(split.example_windows[start]), int(split.example_windows[stop]))
        words = slice(int(split.example_words[start]), int(split.example_words[stop]))
        tokens = slice(int(split.example_tokens[start]), int(split.example_tokens[stop]))
        self.lengths = split.window_lengths[windows]
        self._bounds = bounds_of(self.lengths)
        self._subwords = split.subwords[tokens]
        self._first, self._last = split.word_first[words], split.word_last[words]
        # negative, so before every window, for a word without subwords
        owner = split.word_window[words].astype(np.int64) - windows.start
        self._words = np.argsort(owner, kind="stable")
        self._word_bounds = np.searchsorted(owner[self._words], np.arange(len(self.lengths) + 1))

    def padded(
        self, windows: Int64[np.ndarray, " batch"], pad_id: int
    ) -> Int64[np.ndarray, "batch time"]:
        lengths = self.lengths[windows]
        ids = np.full((len(windows), int(lengths.max())), pad_id, np.int64)
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = self._subwords[self._tokens(windows)]
        return ids

    def token_plan(self, windows: Int64[np.ndarray, " batch"]) -> PoolPlan:
        lengths = self.lengths[windows]
        row_starts = np.arange(len(windows)) * int(lengths.max())
        return PoolPlan(
            source=torch.from_numpy(ragged_arange(row_starts, lengths)),
            target=torch.from_numpy(self._tokens(windows)),
        )

    def word_plan(self, windows: Int64[np.ndarray, " batch"], pooling: Pooling) -> PoolPlan:
        counts = self._word_bounds[windows + 1] - self._word_bounds[windows]
        words = self._words[ragged_arange(self._word_bounds[windows], counts)]
        width = int(self.lengths[windows].max())
        row_starts = np.repeat(np.arange(len(windows)) * width, counts)
        target = torch.from_numpy(words)
        if pooling != "mean":
            position = self._first if pooling == "first" else self._last
            return PoolPlan(source=torch.from_numpy(row_starts + position[words]), target=target)
        sizes = (self._last - self._first + 1)[words].astype(np.int64)
        source = ragged_arange(row_starts + self._first[words], sizes)
        return PoolPlan(
            source=torch.from_numpy(source), target=target, counts=torch.from_numpy(sizes)
        )

    def _tokens(self, windows: Int64[np.ndarray, " batch"]) -> Int64[np.ndarray, " tokens"]:
        return ragged_arange(self._bounds[windows], self.lengths[windows])
