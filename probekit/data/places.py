"""Which of a text's subwords make up each of its rows."""

import numpy as np
from jaxtyping import Bool, Int64

from probekit.base.kinds import ARRAYS
from probekit.base.numbers.ragged import Ragged, bounds_of, ragged_arange
from probekit.data.encoded import EncodedSplit

# The two sentences of `assembly`, seen by the positions among the subwords of each:
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
    asked, counts = ARRAYS[array], split.rows["tokens"]
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
    tokens = rows
    if ARRAYS[array].per != "subword":
        sources = row_sources(split, array, pooling).take(rows)
        example = np.repeat(np.arange(len(split.ids)), split.rows[array])[rows]
        tokens = sources.values + np.repeat(split.example_tokens[example], sources.lengths)
    found = np.zeros(len(split.window_lengths), bool)
    found[np.searchsorted(split.window_bounds, tokens, side="right") - 1] = True
    return found


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
