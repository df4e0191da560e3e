"""A split as the model reads it: windows of subwords, rows in them, and columns of a table."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int32, Int64

from probekit.base.kinds import ARRAYS
from probekit.base.numbers import Ragged, bounds_of, ragged_arange
from probekit.store.tables import ExampleTable

Pooling = Literal["first", "last", "mean"]
"""Which subwords make a word's row."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Subwords:
    """The subwords of many examples, without special tokens, one after the other.

    Attributes:
        ids: vocabulary ids.
        words: the word within its example that each subword belongs to, never decreasing; -1 for
            one that belongs to none.
        bounds: example i holds the subwords ``bounds[i]`` to ``bounds[i + 1]`` (excluded).
        kept: whether each subword has a row in ``tokens``; None is all.
    """

    ids: Int32[np.ndarray, " subwords"]
    words: Int32[np.ndarray, " subwords"]
    bounds: Int64[np.ndarray, " bounds"]
    kept: Bool[np.ndarray, " subwords"] | None = None

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


class WordPlaces(NamedTuple):
    """The window that each word takes its row from, its first and last position there; -1 for none.

    A word without subwords has none. The last position is the word's own, not one past it.
    """

    window: Int32[np.ndarray, " words"]
    first: Int32[np.ndarray, " words"]
    last: Int32[np.ndarray, " words"]


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
        token_types: which of two texts each subword belongs to, where the model is told.
        targets: for language modelling, the vocabulary id that each row is to predict.
        kept: whether each subword has a row in ``tokens``; None is all.
        cut: by its name in a manifest, how much no window holds whole: ``truncated_words``, and
            of running texts ``truncated_examples``; an example table does not tell.
    """

    ids: tuple[str, ...]
    subwords: Int32[np.ndarray, " tokens"]
    word_map: Int32[np.ndarray, " tokens"]
    window_lengths: Int32[np.ndarray, " windows"]
    example_windows: Int64[np.ndarray, " bounds"]
    example_words: Int64[np.ndarray, " bounds"]
    token_types: Int32[np.ndarray, " tokens"] | None = None
    targets: Int32[np.ndarray, " words"] | None = None
    kept: Bool[np.ndarray, " tokens"] | None = None
    cut: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def window_bounds(self) -> Int64[np.ndarray, " window_bounds"]:
        """Window w holds the subwords ``[w]`` to ``[w + 1]`` (excluded)."""
        return bounds_of(self.window_lengths)

    @cached_property
    def example_tokens(self) -> Int64[np.ndarray, " bounds"]:
        """Example i holds the subwords ``[i]`` to ``[i + 1]`` (excluded)."""
        return self.window_bounds[self.example_windows]

    @cached_property
    def word_places(self) -> WordPlaces:
        """Where each word's row is taken from."""
        n_words = int(self.example_words[-1])
        if not n_words:
            return WordPlaces(*np.empty((3, 0), np.int32))
        word = np.repeat(self.example_words[:-1], np.diff(self.example_tokens)) + self.word_map
        return WordPlaces(*_choose_windows(self.window_lengths, word, self.word_map >= 0, n_words))

    @property
    def valid(self) -> Bool[np.ndarray, " words"]:
        """Which words have at least one subword in a window."""
        return self.word_places.window >= 0

    @cached_property
    def averaged(self) -> Bool[np.ndarray, " tokens"] | None:
        """Which subwords make the mean of their text, each once though windows overlap.

        None is all of them. Special tokens are those before a text's first word and after its last.
        """
        if self.targets is not None or not (np.diff(self.example_windows) > 1).any():
            return None
        inside = self.word_map >= 0
        before = bounds_of(inside.astype(np.int64))
        at_bounds = before[self.example_tokens]
        owner = np.repeat(np.arange(len(self.ids)), np.diff(self.example_tokens))
        none, every = at_bounds[:-1][owner], at_bounds[1:][owner]
        averaged = (before[:-1] == none) | (before[:-1] == every)
        # a running text has no word rows, so its tokenizer's own words are looked at
        counts = np.zeros(len(self.ids), np.int64)
        np.maximum.at(counts, owner, self.word_map + 1)
        word = bounds_of(counts)[owner] + self.word_map
        chosen = _choose_windows(self.window_lengths, word, inside, int(counts.sum()))[0]
        window = np.repeat(np.arange(len(self.window_lengths)), self.window_lengths)
        averaged[inside] = chosen[word[inside]] == window[inside]
        return averaged

    @property
    def once(self) -> Bool[np.ndarray, " tokens"]:
        """Which subwords are read of each text, each once though windows overlap."""
        return np.ones(len(self.subwords), bool) if self.averaged is None else self.averaged

    def take(self, examples: Int64[np.ndarray, " taken"]) -> Self:
        """Return the split of some examples, in the order given; how much was cut is not told."""

        # Examples 0 and 1 of one and two windows of 4 | 6 4 subwords: of [1, 0] the windows are
        # 1 2 0, and the subwords 4 to 9, 10 to 13 and 0 to 3.
        def of(bounds: Int64[np.ndarray, " bounds"]) -> Int64[np.ndarray, " places"]:
            return ragged_arange(bounds[:-1][examples], np.diff(bounds)[examples])

        tokens = of(self.example_tokens)
        return type(self)(
            ids=tuple(self.ids[example] for example in examples),
            subwords=self.subwords[tokens],
            word_map=self.word_map[tokens],
            window_lengths=self.window_lengths[of(self.example_windows)],
            example_windows=bounds_of(np.diff(self.example_windows)[examples]),
            example_words=bounds_of(np.diff(self.example_words)[examples]),
            token_types=None if self.token_types is None else self.token_types[tokens],
            targets=None if self.targets is None else self.targets[of(self.example_words)],
            kept=None if self.kept is None else self.kept[tokens],
        )

    @property
    def rows(self) -> dict[str, Int64[np.ndarray, " examples"]]:
        """Rows of each example in every array that can be made of the split."""
        words, tokens = np.diff(self.example_words), self.example_tokens
        counts = {
            "word": words,
            "prediction": words,
            "subword": np.diff(
                tokens if self.kept is None else bounds_of(self.kept.astype(np.int64))[tokens]
            ),
            "text": np.ones(len(self.ids), np.int64),
        }
        return {name: counts[array.per] for name, array in ARRAYS.items()}

    @property
    def counts(self) -> dict[str, int]:
        """The totals that a manifest reports."""
        rows = int(self.example_words[-1])
        words = {"words": rows, "valid_words": int(self.valid.sum())}
        return {
            "examples": len(self.ids),
            **(words if self.targets is None else {"predicted": rows}),
            "tokens": len(self.subwords),
            "windows": len(self.window_lengths),
            **self.cut,
        }


def _choose_windows(
    window_lengths: Int32[np.ndarray, " windows"],
    word: Int64[np.ndarray, " tokens"],
    inside: Bool[np.ndarray, " tokens"],
    n_words: int,
) -> Int32[np.ndarray, "3 words"]:
    """Return the three columns of `WordPlaces`.

    A word in several windows takes the one in which it lies farthest from an edge, the earliest
    of equals.

    Args:
        window_lengths: subwords of each window.
        word: word row of each subword.
        inside: which subwords belong to a word; the others are special tokens, beyond the edge.
        n_words: R.
    """
    places = np.full((3, n_words), -1, np.int32)
    content = np.flatnonzero(inside)
    if not content.size:
        return places
    window = np.repeat(np.arange(len(window_lengths)), window_lengths)[content]
    word = word[content]
    change = (np.diff(window) != 0) | (np.diff(word) != 0)
    begins = np.concatenate([[0], np.flatnonzero(change) + 1])
    ends = np.concatenate([begins[1:], [len(word)]]) - 1
    owner, row = window[begins], word[begins]
    left, right = np.searchsorted(window, owner), np.searchsorted(window, owner, side="right") - 1
    depth = np.minimum(begins - left, right - ends)
    order = np.lexsort((owner, -depth, row))
    best = order[np.concatenate([[True], np.diff(row[order]) != 0])]
    start = bounds_of(window_lengths)[owner]
    columns = np.stack([owner, content[begins] - start, content[ends] - start])
    places[:, row[best]] = columns[:, best]
    return places


def columns_of(encoded: EncodedSplit) -> dict[str, Any]:
    """Return the columns that say what the model reads, and how many rows each example has."""
    words, tokens = encoded.example_words, encoded.example_tokens
    lists = {
        "valid": (encoded.valid, words),
        "subwords": (encoded.subwords, tokens),
        "word_map": (encoded.word_map, tokens),
        "windows": (encoded.window_lengths, encoded.example_windows),
        "token_types": (encoded.token_types, tokens),
        "targets": (encoded.targets, words),
        "kept": (encoded.kept, tokens),
    }
    return {
        "id": list(encoded.ids),
        "n_rows": encoded.rows["words"].astype(np.int32),
        "n_tokens": np.diff(tokens).astype(np.int32),
        **{  # example i holds values[bounds[i] : bounds[i + 1]]
            name: pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(values))
            for name, (values, bounds) in lists.items()
            if values is not None
        },
    }


def encoded_of(examples: ExampleTable) -> EncodedSplit:
    """Return the split whose columns a table holds; how much was cut is not among them."""

    def flat(name: str) -> np.ndarray:
        return examples.flat(name).astype(np.int32)

    return EncodedSplit(
        ids=examples.ids,
        subwords=flat("subwords"),
        word_map=flat("word_map"),
        window_lengths=flat("windows"),
        example_windows=window_lengths(examples).bounds,
        example_words=bounds_of(examples.n_rows),
        token_types=flat("token_types") if examples.has("token_types") else None,
        targets=flat("targets") if examples.has("targets") else None,
        kept=examples.flat("kept") if examples.has("kept") else None,
    )


def window_lengths(examples: ExampleTable) -> Ragged:
    """Return the subwords of each window, example by example."""
    lengths = examples.column("windows").combine_chunks().value_lengths()
    counts = lengths.to_numpy(zero_copy_only=False)
    return Ragged(examples.flat("windows").astype(np.int64), bounds_of(counts))


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
