"""A split as the model reads it: windows of subwords, and every row's place in them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int32, Int64

from probekit.base.kinds import POOLED
from probekit.base.numbers.ragged import bounds_of


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedSplit:
    """Columns over all examples of a split (N examples, R words, T subwords).

    Every word has one row, also one that the tokenizer deletes. Windows hold their special
    tokens; a window has a subword, so an example may have no window. A running text has no words
    of its own, so no word rows; for language modelling, ``words`` are the predicting positions.

    Attributes:
        ids: name of each example.
        subwords: vocabulary ids of all windows, one after the other.
        word_map: word within its example of each subword; -1 for a special token. In a running
            text the tokenizer's own words.
        window_lengths: subwords of each window.
        example_windows: example i has the windows ``[i]`` to ``[i + 1]`` (excluded).
        example_words: example i has the word rows ``[i]`` to ``[i + 1]`` (excluded).
        word_window: window that each word takes its row from; -1 for a word without subwords.
        word_first: the word's first position in that window; -1 for none.
        word_last: the word's last position in that window, not one past it; -1 for none.
        truncated_words: words of which no window holds every subword.
        averaged: which subwords make the mean of their text, so that each counts once although
            windows overlap; None is all of them.
        token_types: which of two texts each subword belongs to, where the model is told.
        truncated_examples: texts of which no window holds some subword; None for words.
        targets: for language modelling, the vocabulary id that each row is to predict.
    """

    ids: tuple[str, ...]
    subwords: Int32[np.ndarray, " tokens"]
    word_map: Int32[np.ndarray, " tokens"]
    window_lengths: Int32[np.ndarray, " windows"]
    example_windows: Int64[np.ndarray, " bounds"]
    example_words: Int64[np.ndarray, " bounds"]
    word_window: Int32[np.ndarray, " words"]
    word_first: Int32[np.ndarray, " words"]
    word_last: Int32[np.ndarray, " words"]
    truncated_words: int
    averaged: Bool[np.ndarray, " tokens"] | None = None
    token_types: Int32[np.ndarray, " tokens"] | None = None
    truncated_examples: int | None = None
    targets: Int32[np.ndarray, " words"] | None = None

    @property
    def valid(self) -> Bool[np.ndarray, " words"]:
        """Which words have at least one subword in a window."""
        return self.word_window >= 0

    @property
    def window_bounds(self) -> Int64[np.ndarray, " window_bounds"]:
        """Window w holds the subwords ``[w]`` to ``[w + 1]`` (excluded)."""
        return bounds_of(self.window_lengths)

    @property
    def example_tokens(self) -> Int64[np.ndarray, " bounds"]:
        """Example i holds the subwords ``[i]`` to ``[i + 1]`` (excluded)."""
        return self.window_bounds[self.example_windows]

    @property
    def rows(self) -> dict[str, Int64[np.ndarray, " examples"]]:
        """Rows of each example in every array that can be made of the split."""
        words = np.diff(self.example_words)
        one = np.ones(len(self.ids), np.int64)
        return {
            "words": words,
            "predicted": words,
            "tokens": np.diff(self.example_tokens),
            **dict.fromkeys(POOLED, one),
        }

    @property
    def counts(self) -> dict[str, int]:
        """The totals that a manifest reports."""
        if self.targets is not None:
            return {
                "examples": len(self.ids),
                "predicted": len(self.targets),
                "tokens": len(self.subwords),
                "windows": len(self.window_lengths),
            }
        counts = {
            "examples": len(self.ids),
            "words": len(self.word_window),
            "valid_words": int(self.valid.sum()),
            "tokens": len(self.subwords),
            "windows": len(self.window_lengths),
            "truncated_words": self.truncated_words,
        }
        if self.truncated_examples is not None:
            counts["truncated_examples"] = self.truncated_examples
        return counts
