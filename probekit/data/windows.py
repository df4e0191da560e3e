"""Cut tokenised examples into windows, and put them together as an ``EncodedSplit``."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, Int64

from probekit.base.numbers import bounds_of, ragged_arange
from probekit.base.registry import choose
from probekit.data.encoded import EncodedSplit, Specials, Subwords
from probekit.errors import DataError, OptionError

OVERLONG = ("stride", "truncate", "error")

# Eight words of one subword each, and room for four: windows share a quarter of the room, one word.
#
#     words       0 1 2 3 4 5 6 7
#     spans       (0, 4)  (3, 7)  (6, 8)
#     truncate    (0, 4)  and four truncated words
#
# If the word 4 is of six subwords, more than a window has room for, it gets one for its first four,
# which shares nothing, and is the only truncated word:
#
#     words       0 1 2 3 444444 5        bounds 0 1 2 3 4 10 11
#     spans       (0, 4)  (4, 8)  (10, 11)


def check_limits(max_length: int, specials: int, overlong: str, least: int = 1) -> None:
    """Check the length limit and the rule for longer texts.

    Args:
        max_length: most subwords of a window, special tokens included.
        specials: how many of these are special tokens.
        overlong: the rule.
        least: fewest subwords of text that a window must have room for.

    Raises:
        OptionError: there is no such room.
        UnknownNameError: there is no such rule.
    """
    if max_length - specials < least:
        raise OptionError(
            f"--max-length {max_length} leaves no room for text beside the tokenizer's "
            f"{specials} special tokens; give at least {specials + least}."
        )
    choose("--overlong", overlong, dict.fromkeys(OVERLONG))


def refuse_overlong(
    lengths: Int64[np.ndarray, " examples"], ids: Sequence[str], max_length: int
) -> None:
    """Refuse a split with an example of more than ``max_length`` subwords, specials included.

    Raises:
        DataError: there is one; the message names the first and counts the others.
    """
    too_long = np.flatnonzero(lengths > max_length)
    if too_long.size:
        first = int(too_long[0])
        others = f" ({too_long.size - 1} more are too long)" if too_long.size > 1 else ""
        raise DataError(
            f"example {ids[first]} has {lengths[first]} subwords with special tokens, more than "
            f"the limit of {max_length}{others}. Shorten it, or use --overlong stride or truncate."
        )


class Windows(NamedTuple):
    """Windows as runs of ``Subwords``: (start, stop), in order, and how many each example has."""

    start: Int64[np.ndarray, " windows"]
    stop: Int64[np.ndarray, " windows"]
    per_example: Int64[np.ndarray, " examples"]


def _word_bounds(content: Subwords, example: int) -> Int64[np.ndarray, " bounds"]:
    """Return where the words that have subwords start within one example, and its length."""
    owners = content.words[content.bounds[example] : content.bounds[example + 1]]
    changes = np.flatnonzero(np.diff(owners)) + 1
    return np.concatenate([[0], changes, [len(owners)]]).astype(np.int64)


Cut = tuple[tuple[tuple[int, int], ...], int]
"""Start and stop of each window, counted in the text's subwords, and of how many words no window
holds every subword.
"""


def truncate(bounds: Int64[np.ndarray, " bounds"], room: int) -> Cut:
    """Keep the whole words that fit into one window (or the start of a first word that does not).

    Args:
        bounds: word k holds the subwords ``bounds[k]`` to ``bounds[k + 1]`` (excluded).
        room: most subwords of a window, at least 1.
    """
    fitting = int(np.searchsorted(bounds, room, side="right")) - 1
    stop = int(bounds[fitting]) if fitting else room
    return ((0, stop),), len(bounds) - 1 - fitting


def stride(bounds: Int64[np.ndarray, " bounds"], room: int) -> Cut:
    """Cover a text with windows that overlap by whole words, up to a quarter of ``room``.

    No word is split, except one that exceeds a whole window: it gets a window of its own, which
    holds its first ``room`` subwords.

    Args:
        bounds: word k holds the subwords ``bounds[k]`` to ``bounds[k + 1]`` (excluded).
        room: most subwords of a window, at least 1.
    """
    last = len(bounds) - 1
    spans, truncated, first = [], 0, 0
    while True:
        start = int(bounds[first])
        stop = int(np.searchsorted(bounds, start + room, side="right")) - 1
        if stop == first:  # this word alone exceeds the window
            spans.append((start, start + room))
            truncated += 1
            stop = first + 1
        else:
            spans.append((start, int(bounds[stop])))
        if stop == last:
            return tuple(spans), truncated
        # The next window overlaps this one and holds the word after it. The overlap shrinks where
        # that word would not fit behind it, down to none for a word as long as the window.
        overlap = min(room // 4, max(0, room - int(bounds[stop + 1] - bounds[stop])))
        first = int(np.searchsorted(bounds, bounds[stop] - overlap, side="left"))


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
#     word_places.window 0 0 | 1 1 1 2
#     word_places.first  1 2 | 1 2 4 2                 word_places.last 1 2 | 1 3 4 2
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
    room, lengths = max_length - len(specials), content.lengths
    if overlong == "error":
        refuse_overlong(lengths + len(specials), ids, max_length)
    cut = truncate if overlong == "truncate" else stride
    cuts = {
        int(example): cut(_word_bounds(content, int(example)), room)
        for example in np.flatnonzero(lengths > room)
    }
    # an example without subwords has a window where that holds special tokens
    per_example = np.where((lengths > 0) | (len(specials) > 0), 1, 0)
    for example, (spans, _) in cuts.items():
        per_example[example] = len(spans)
    start = np.repeat(content.bounds[:-1], per_example)
    stop = np.repeat(content.bounds[1:], per_example)
    first_window = bounds_of(per_example)
    for example, (spans, _) in cuts.items():
        run = slice(first_window[example], first_window[example + 1])
        start[run], stop[run] = content.bounds[example] + np.array(spans).T
    lost = {"truncated_words": sum(words for _, words in cuts.values())}
    if n_words is None:
        cut_texts = len(cuts) if overlong == "truncate" else 0
        lost = {"truncated_words": 0, "truncated_examples": cut_texts}
        n_words = np.zeros(len(ids), np.int64)
    return assemble(content, Windows(start, stop, per_example), specials, ids, n_words, cut=lost)


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
    """Put special tokens around the windows.

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
    inside = ragged_arange(bounds[:-1] + len(specials.prefix), inner)
    subwords = np.empty(bounds[-1], np.int32)
    subwords[inside] = content.ids[source]
    for offset, special in enumerate(specials.prefix):
        subwords[bounds[:-1] + offset] = special
    for offset, special in enumerate(reversed(specials.suffix), start=1):
        subwords[bounds[1:] - offset] = special
    word_map = np.full(bounds[-1], -1, np.int32)
    word_map[inside] = content.words[source]
    kept = None
    if content.kept is not None:
        kept = np.zeros(bounds[-1], bool)
        kept[inside] = content.kept[source]
    return EncodedSplit(
        ids=tuple(ids),
        subwords=subwords,
        word_map=word_map,
        window_lengths=lengths,
        example_windows=bounds_of(windows.per_example),
        example_words=bounds_of(n_words),
        targets=targets,
        kept=kept,
        cut=cut,
    )
