"""A split as the model reads it: windows of subwords, and every row's place in them."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from jaxtyping import Bool, Int32, Int64

from probekit.base.kinds import ARRAYS
from probekit.base.numbers.ragged import bounds_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Subwords:
    """The subwords of many examples, without special tokens, one after the other.

    Attributes:
        ids: vocabulary ids.
        words: the word within its example that each subword belongs to, never decreasing; -1 for
            one that belongs to none.
        bounds: example i holds the subwords ``bounds[i]`` to ``bounds[i + 1]`` (excluded).
    """

    ids: Int32[np.ndarray, " subwords"]
    words: Int32[np.ndarray, " subwords"]
    bounds: Int64[np.ndarray, " bounds"]

    @classmethod
    def gather(cls, examples: Iterable[tuple[Sequence[int], Sequence[int | None]]]) -> Self:
        """Put the ids and words of one example after the other; nothing else of them is kept."""
        # flat arrays of C integers: as lists, millions of them would take ten times the memory
        ids, words, lengths = array("i"), array("i"), array("q")
        for numbers, owners in examples:
            ids.extend(numbers)
            words.extend(owners)  # type: ignore[arg-type]  # of content, which is in some word
            lengths.append(len(numbers))
        return cls(
            ids=np.array(ids, np.int32),
            words=np.array(words, np.int32),
            bounds=bounds_of(np.array(lengths, np.int64)),
        )

    @property
    def lengths(self) -> Int64[np.ndarray, " examples"]:
        """Subwords of each example."""
        return np.diff(self.bounds)


@dataclass(frozen=True, slots=True)
class Specials:
    """The special tokens that a tokenizer puts before and after one text."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    def __len__(self) -> int:
        """Return how many subwords of every window they take."""
        return len(self.prefix) + len(self.suffix)


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
        averaged: which subwords make the mean of their text, so that each counts once although
            windows overlap; None is all of them.
        token_types: which of two texts each subword belongs to, where the model is told.
        targets: for language modelling, the vocabulary id that each row is to predict.
        cut: by its name in a manifest, how much no window holds whole: ``truncated_words``, and
            of running texts ``truncated_examples``; an example table does not tell.
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
    averaged: Bool[np.ndarray, " tokens"] | None = None
    token_types: Int32[np.ndarray, " tokens"] | None = None
    targets: Int32[np.ndarray, " words"] | None = None
    cut: Mapping[str, int] = field(default_factory=dict)

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
        counts = {
            "word": words,
            "prediction": words,
            "subword": np.diff(self.example_tokens),
            "text": np.ones(len(self.ids), np.int64),
        }
        return {name: counts[array.per] for name, array in ARRAYS.items()}

    @property
    def counts(self) -> dict[str, int]:
        """The totals that a manifest reports."""
        rows = len(self.word_window)
        words = {"words": rows, "valid_words": int(self.valid.sum())}
        return {
            "examples": len(self.ids),
            **(words if self.targets is None else {"predicted": rows}),
            "tokens": len(self.subwords),
            "windows": len(self.window_lengths),
            **self.cut,
        }
