"""From an entry's example table: which of a text's subwords make up each of its rows."""

import numpy as np
from jaxtyping import Int64

from probekit.base.numbers.ragged import Ragged, bounds_of, ragged_arange
from probekit.data.assembly import choose_windows
from probekit.store.tables import ExampleTable


def window_lengths(examples: ExampleTable) -> Ragged:
    """Return the subwords of each window, example by example."""
    return _column(examples, "windows")


def row_sources(examples: ExampleTable, array: str, pooling: str) -> Ragged:
    """Return the subwords that each row of an array is made of.

    Args:
        examples: the examples of an entry.
        array: ``words``, ``predicted``, ``cls``, ``mean`` or ``last``.
        pooling: what makes a word's row: its ``first`` subword, its ``last``, or their ``mean``.

    Returns:
        One run per row, in the order of the examples: positions among the example's subwords, over
        all its windows. A row of a word that the tokenizer deletes has none; a mean has several.
    """
    spans = _Spans(examples)
    if array in ("words", "predicted"):  # what predicts is numbered as words are, a subword each
        return spans.words(pooling)
    if array == "mean":
        return spans.every_token()
    ends = spans.counts - 1 if array == "last" else np.zeros_like(spans.counts)
    some = spans.counts > 0
    return Ragged(ends[some], bounds_of(some.astype(np.int64)))


class _Spans:
    """The words of all examples as runs of content subwords, those of their chosen window."""

    def __init__(self, examples: ExampleTable) -> None:
        self.counts = examples.n_tokens.astype(np.int64)
        word_map = _column(examples, "word_map")
        windows = window_lengths(examples)
        self._windows_per_example = windows.lengths
        self._token_start = bounds_of(self.counts)[:-1]
        window = np.repeat(np.arange(len(windows.values)), windows.values)
        example = np.repeat(np.arange(len(self.counts)), self.counts)
        # Words of a text are its tokenizer's; those of a pre-split one may lack subwords.
        n_words = examples.n_rows.astype(np.int64)
        if not n_words.any():
            n_words = np.zeros(len(self.counts), np.int64)
            np.maximum.at(n_words, example, word_map.values + 1)
        self._word_start = bounds_of(n_words)
        self._content = np.flatnonzero(word_map.values >= 0)
        inner = np.bincount(window[self._content], minlength=len(windows.values))
        self._inner_start = bounds_of(inner)
        self._chosen = choose_windows(
            window=window[self._content],
            word=(self._word_start[example] + word_map.values)[self._content],
            inner=inner,
            n_words=int(n_words.sum()),
        )
        self._word_map = word_map

    def words(self, pooling: str) -> Ragged:
        """Return the positions of each word's subwords, pooled."""
        first, last = self._ends()
        there = self._chosen[0] >= 0
        if pooling == "mean":
            counts = np.where(there, last - first + 1, 0)
            values = self._content[ragged_arange(first[there], counts[there])]
        else:
            counts = there.astype(np.int64)
            values = self._content[(first if pooling == "first" else last)[there]]
        owner = np.repeat(np.arange(len(self.counts)), np.diff(self._word_start))
        values = values - self._token_start[np.repeat(owner, counts)]
        return Ragged(values, bounds_of(counts))

    def every_token(self) -> Ragged:
        """Return all subwords of each example, those in overlapping windows once.

        The special tokens are the first window's before the text and the last window's after it.
        """
        keep = np.ones(int(self.counts.sum()), bool)
        for example in np.flatnonzero(self._windows_per_example > 1):
            start = int(self._token_start[example])
            keep[start : start + int(self.counts[example])] = self._once(int(example))
        starts = np.repeat(self._token_start, self.counts)
        return Ragged(
            (np.arange(len(keep)) - starts)[keep],
            bounds_of(keep.astype(np.int64))[np.append(self._token_start, len(keep))],
        )

    def _once(self, example: int) -> np.ndarray:
        """Say of each subword of an overlong example whether it counts."""
        first, last = self._ends()
        place = slice(int(self._word_start[example]), int(self._word_start[example + 1]))
        there = self._chosen[0, place] >= 0
        lengths = (last - first + 1)[place][there]
        chosen = self._content[ragged_arange(first[place][there], lengths)]
        start, count = int(self._token_start[example]), int(self.counts[example])
        keep = np.zeros(count, bool)
        keep[chosen - start] = True
        content = np.flatnonzero(self._word_map.values[start : start + count] >= 0)
        keep[: content[0]] = keep[content[-1] + 1 :] = True
        return keep

    def _ends(self) -> tuple[Int64[np.ndarray, " words"], Int64[np.ndarray, " words"]]:
        """Return the first and last subword of each word, as positions in the content."""
        window, first, last = self._chosen.astype(np.int64)
        start = self._inner_start[window]
        return start + first, start + last


def _column(examples: ExampleTable, name: str) -> Ragged:
    lengths = examples.table[name].combine_chunks().value_lengths().to_numpy(zero_copy_only=False)
    return Ragged(examples.flat(name).astype(np.int64), bounds_of(lengths))
