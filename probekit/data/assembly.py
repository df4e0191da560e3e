"""Put windows of subwords together as an ``EncodedSplit``, and give every word its place in them.

What a table of examples stores of a split is put together by the same function as what a tokenizer
has just made, so that rows are made of the same subwords in extraction and in training.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int32, Int64

from probekit.base.numbers.ragged import bounds_of, ragged_arange
from probekit.data.encoded import EncodedSplit, Specials, Subwords
from probekit.data.windows import Windows, cut_windows, refuse_overlong

# Two sentences, one of them in two windows: "a b" and "c dd e f", where dd is the subwords d and ~d
# and a window has room for four subwords between the special tokens [ and ].
#
#     content.ids        a b | c  d ~d  e  f           content.words   0 1 | 0 1 1 2 3
#     windows.start      0 | 2 5                       windows.stop    2 | 6 7
#     subwords           [ a b ] | [ c d ~d e ]   [ e f ]
#     word_map          -1 0 1 -1 | -1 0 1 1 2 -1   -1 2 3 -1
#     window_lengths     4 | 6 4                       example_windows 0 1 3
#
# There are two words of the first sentence and four of the second: example_words is 0 2 6. The word
# e lies in two windows, at an edge of both, so the first one gives its row; f only in the last.
#
#     word_window        0 0 | 1 1 1 2
#     word_first         1 2 | 1 2 4 2                 word_last       1 2 | 1 3 4 2
#
# The mean of the second sentence reads e once, and of the special tokens the first and the last:
#
#     averaged           1 1 1 1 | 1 1 1 1 1 0   0 0 1 1


def encode_content(
    content: Subwords,
    specials: Specials,
    ids: Sequence[str],
    *,
    max_length: int,
    overlong: str,
    n_words: Int64[np.ndarray, " examples"] | None = None,
) -> EncodedSplit:
    """Cut tokenised examples into windows and put them together.

    Args:
        content: the subwords, without special tokens.
        specials: what goes around each window.
        ids: name of each example.
        max_length: most subwords of a window, special tokens included.
        overlong: what to do with a longer example: ``stride``, ``truncate`` or ``error``.
        n_words: words of each example, those without subwords included; None for running texts,
            whose words are the tokenizer's and have no rows.

    Raises:
        DataError: an example is too long and ``overlong`` is ``error``.
    """
    if overlong == "error":
        refuse_overlong(content.lengths + len(specials), ids, max_length)
    room = max_length - len(specials)
    windows = cut_windows(content, room, overlong, keep_empty=len(specials) > 0)
    if n_words is not None:
        cut = {"truncated_words": windows.truncated_words}
        return assemble(content, windows, specials, ids, n_words, cut=cut)
    cut_texts = int((content.lengths > room).sum()) if overlong == "truncate" else 0
    cut = {"truncated_words": 0, "truncated_examples": cut_texts}
    return assemble(content, windows, specials, ids, np.zeros(len(ids), np.int64), cut=cut)


def assemble(
    content: Subwords,
    windows: Windows,
    specials: Specials,
    ids: Sequence[str],
    n_words: Int64[np.ndarray, " examples"],
    *,
    cut: Mapping[str, int],
    targets: Int32[np.ndarray, " words"] | None = None,
) -> EncodedSplit:
    """Put special tokens around the windows, and give every word its place.

    Args:
        content: the subwords, without special tokens.
        windows: made of them.
        specials: what goes around each window.
        ids: name of each example.
        n_words: words of each example that have rows.
        cut: see ``EncodedSplit``.
        targets: for language modelling, what each row is to predict.
    """
    inner = windows.stop - windows.start
    source = ragged_arange(windows.start, inner)
    lengths = (inner + len(specials)).astype(np.int32)
    bounds = bounds_of(lengths)
    place = ragged_arange(bounds[:-1] + len(specials.prefix), inner)
    subwords = np.empty(bounds[-1], np.int32)
    subwords[place] = content.ids[source]
    for offset, special in enumerate(specials.prefix):
        subwords[bounds[:-1] + offset] = special
    for offset, special in enumerate(reversed(specials.suffix), start=1):
        subwords[bounds[1:] - offset] = special
    word_map = np.full(bounds[-1], -1, np.int32)
    word_map[place] = content.words[source]
    return with_places(
        ids=tuple(ids),
        subwords=subwords,
        word_map=word_map,
        window_lengths=lengths,
        example_windows=bounds_of(windows.per_example),
        example_words=bounds_of(n_words),
        targets=targets,
        cut=cut,
    )


def with_places(
    *,
    ids: tuple[str, ...],
    subwords: Int32[np.ndarray, " tokens"],
    word_map: Int32[np.ndarray, " tokens"],
    window_lengths: Int32[np.ndarray, " windows"],
    example_windows: Int64[np.ndarray, " bounds"],
    example_words: Int64[np.ndarray, " bounds"],
    token_types: Int32[np.ndarray, " tokens"] | None = None,
    targets: Int32[np.ndarray, " words"] | None = None,
    cut: Mapping[str, int],
) -> EncodedSplit:
    """Return the split of these windows: every word's place, and every token once, are found.

    Args:
        ids: see ``EncodedSplit``, as for the rest.
        subwords: vocabulary ids.
        word_map: words; those of a split without word rows are the tokenizer's own.
        window_lengths: of all windows.
        example_windows: bounds.
        example_words: bounds.
        token_types: of pairs.
        targets: of language modelling, whose blocks do not overlap.
        cut: counts.
    """
    places, averaged = np.empty((3, 0), np.int32), None
    has_rows = example_words[-1] > 0
    overlaps = targets is None and bool((np.diff(example_windows) > 1).any())
    if has_rows or overlaps:
        inside, example_tokens = word_map >= 0, bounds_of(window_lengths)[example_windows]
        owner = np.repeat(np.arange(len(ids)), np.diff(example_tokens))
        words = example_words if has_rows else _own_words(word_map, owner, len(ids))
        word = words[owner] + word_map
        found = _choose_windows(window_lengths, word, inside, int(words[-1]))
        places = found if has_rows else places
        if overlaps:
            window = np.repeat(np.arange(len(window_lengths)), window_lengths)
            averaged = _before_or_after_words(inside, owner, example_tokens)
            averaged[inside] = found[0][word[inside]] == window[inside]
    return EncodedSplit(
        ids=ids,
        subwords=subwords,
        word_map=word_map,
        window_lengths=window_lengths,
        example_windows=example_windows,
        example_words=example_words,
        word_window=places[0],
        word_first=places[1],
        word_last=places[2],
        averaged=averaged,
        token_types=token_types,
        targets=targets,
        cut=cut,
    )


def _own_words(
    word_map: Int32[np.ndarray, " tokens"], owner: Int64[np.ndarray, " tokens"], examples: int
) -> Int64[np.ndarray, " bounds"]:
    """Return the bounds of the words that the tokenizer finds in each text, deleted ones too."""
    counts = np.zeros(examples, np.int64)
    np.maximum.at(counts, owner, word_map + 1)
    return bounds_of(counts)


def _choose_windows(
    window_lengths: Int32[np.ndarray, " windows"],
    word: Int64[np.ndarray, " tokens"],
    inside: Bool[np.ndarray, " tokens"],
    n_words: int,
) -> Int32[np.ndarray, "3 words"]:
    """Return each word's window, and its first and last position there; -1 for none.

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
    found = np.stack([owner, content[begins] - start, content[ends] - start])
    places[:, row[best]] = found[:, best]
    return places


def _before_or_after_words(
    inside: Bool[np.ndarray, " tokens"],
    owner: Int64[np.ndarray, " tokens"],
    example_tokens: Int64[np.ndarray, " bounds"],
) -> Bool[np.ndarray, " tokens"]:
    """Say which tokens come before all words of their example, or after all of them."""
    before = bounds_of(inside.astype(np.int64))
    at_bounds = before[example_tokens]
    none, every = at_bounds[:-1][owner], at_bounds[1:][owner]
    return (before[:-1] == none) | (before[:-1] == every)
