"""Which subwords make up a row, and its writing from hidden states into a buffer.

Which positions of a batch make which row is settled once, in ``Picks``, and used for every layer.
"""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from probekit.base.kinds import ARRAYS
from probekit.base.numbers import Ragged, bounds_of, ragged_arange
from probekit.base.tensors import send
from probekit.data.encoded import EncodedSplit

# The two sentences of `windows`, seen by the positions among the subwords of each:
#
#     [ a b ]  0 1 2 3          [ c d ~d e ] [ e f ]  0 1 2 3 4 5 6 7 8 9
#
#     words, mean of a word     1 | 2 | 1 | 2 3 | 4 | 8     (e of the first window, f of the second)
#     words, last               1 | 2 | 1 | 3 | 4 | 8
#     cls, last                 0 | 0 and 3 | 9             (the ends of the whole text)
#     mean                      0 1 2 3 | 0 1 2 3 4 8 9     (e once)
#
# A word that the tokenizer deletes is an empty run: it has a row all the same, of zeros.


def row_sources(split: EncodedSplit, array: str, pooling: str) -> Ragged:
    """Return the subwords that each row of an array is made of.

    Args:
        split: the examples, encoded or as an entry stores them.
        array: any that has not a row per subword.
        pooling: what makes a word's row: its ``first`` subword, its ``last``, or their ``mean``.

    Returns:
        One run per row, in the order of the examples: positions among the example's subwords, over
        all its windows. A row of a word that the tokenizer deletes has none; a mean has several.
    """
    asked, counts = ARRAYS[array], np.diff(split.example_tokens)
    if asked.per != "text":
        return _words(split, pooling)
    if asked.averages:
        positions = ragged_arange(np.zeros_like(counts), counts)
        if split.averaged is None:
            return Ragged(positions, bounds_of(counts))
        kept = bounds_of(split.averaged.astype(np.int64))[split.example_tokens]
        return Ragged(positions[split.averaged], kept)
    ends = np.zeros_like(counts) if asked.end == "first" else counts - 1
    some = counts > 0
    return Ragged(ends[some], bounds_of(some.astype(np.int64)))


def windows_of(
    split: EncodedSplit, array: str, pooling: str, rows: Int64[np.ndarray, " rows"]
) -> Bool[np.ndarray, " windows"]:
    """Return which windows some rows of an array are made of.

    Args:
        split: the examples.
        array: any.
        pooling: see `row_sources`.
        rows: numbers of the rows, in the order of the examples.
    """
    tokens = rows if split.kept is None else np.flatnonzero(split.kept)[rows]
    if ARRAYS[array].per != "subword":
        sources = row_sources(split, array, pooling).take(rows)
        example = np.repeat(np.arange(len(split.ids)), split.rows[array])[rows]
        tokens = sources.values + np.repeat(split.example_tokens[example], sources.lengths)
    read = np.zeros(len(split.window_lengths), bool)
    read[np.searchsorted(split.window_bounds, tokens, side="right") - 1] = True
    return read


def _words(split: EncodedSplit, pooling: str) -> Ragged:
    """Return the positions of each word's subwords in its window, pooled."""
    there = split.valid
    owner = np.repeat(np.arange(len(split.ids)), np.diff(split.example_words))[there]
    window, first, last = (column[there].astype(np.int64) for column in split.word_places)
    sizes = last - first + 1 if pooling == "mean" else np.ones_like(first)
    counts = np.zeros(len(there), np.int64)
    counts[there] = sizes
    start = split.window_bounds[window] - split.example_tokens[owner]
    return Ragged(
        ragged_arange(start + (last if pooling == "last" else first), sizes), bounds_of(counts)
    )


Pooling = Literal["first", "last", "mean"]


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
        picked = segment_mean(picked, picks.counts)
    if picks.counts is None or picks.totals is None:
        out.index_copy_(0, picks.target, picked.to(device=out.device, dtype=out.dtype))
        return
    assert out.dtype in (torch.float32, torch.float64), "parts of a mean add up in full precision"
    share = picks.counts.double() / picks.totals.double()
    part = picked * share[:, None].to(picked.dtype)
    # no row is picked twice, so the order of additions is that of the batches
    out.index_add_(0, picks.target, part.to(device=out.device, dtype=out.dtype))


def segment_mean(
    values: Float[Tensor, "picks dim"], counts: Int64[Tensor, " rows"]
) -> Float[Tensor, "rows dim"]:
    """Return the float32 mean of each run of ``counts`` rows.

    The counts are at least one run, each at least 1, and add up to all rows. The sum runs in
    order, without atomic additions, so the result repeats bit for bit.
    """
    # `unsafe` skips a check of the counts that would make a GPU wait
    return torch.segment_reduce(values.float(), "mean", lengths=counts, axis=0, unsafe=True)
