"""Cut texts that are longer than the model's limit into windows, at word boundaries."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from probekit.base.numbers.ragged import bounds_of
from probekit.data.encoded import Subwords
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
        OptionError: there is no such room, or the rule is none of the three.
    """
    if max_length - specials < least:
        raise OptionError(
            f"--max-length {max_length} leaves no room for text beside the tokenizer's "
            f"{specials} special tokens; give at least {specials + least}."
        )
    if overlong not in OVERLONG:
        raise OptionError(f"--overlong {overlong!r} is none of: {', '.join(OVERLONG)}.")


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows:
    """Windows as runs of ``Subwords``: (start, stop), in order, and how many each example has."""

    start: Int64[np.ndarray, " windows"]
    stop: Int64[np.ndarray, " windows"]
    per_example: Int64[np.ndarray, " examples"]
    truncated_words: int = 0


def cut_windows(content: Subwords, room: int, overlong: str, *, keep_empty: bool) -> Windows:
    """Give every example one window, and an overlong one those that its rule says.

    Args:
        content: the subwords, without special tokens.
        room: most subwords of a window, special tokens not counted.
        overlong: how a longer example is read: ``truncate``, else in overlapping windows.
        keep_empty: whether an example without subwords has a window (of special tokens).
    """
    lengths = content.lengths
    per_example = np.where((lengths > 0) | keep_empty, 1, 0)
    cut = truncate if overlong == "truncate" else stride
    cuts = {
        int(example): cut(_word_bounds(content, int(example)), room)
        for example in np.flatnonzero(lengths > room)
    }
    for example, found in cuts.items():
        per_example[example] = len(found.spans)
    start = np.repeat(content.bounds[:-1], per_example)
    stop = np.repeat(content.bounds[1:], per_example)
    first_window = bounds_of(per_example)
    for example, found in cuts.items():
        place = slice(first_window[example], first_window[example + 1])
        start[place], stop[place] = content.bounds[example] + np.array(found.spans).T
    truncated = sum(found.truncated_words for found in cuts.values())
    return Windows(start=start, stop=stop, per_example=per_example, truncated_words=truncated)


def _word_bounds(content: Subwords, example: int) -> Int64[np.ndarray, " bounds"]:
    """Return where the words that have subwords start within one example, and its length."""
    owners = content.words[content.bounds[example] : content.bounds[example + 1]]
    changes = np.flatnonzero(np.diff(owners)) + 1
    return np.concatenate([[0], changes, [len(owners)]]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the windows of one text lie.

    Attributes:
        spans: (start, stop) of each window, counted in the text's subwords.
        truncated_words: words of which no window holds every subword.
    """

    spans: tuple[tuple[int, int], ...]
    truncated_words: int


def truncate(bounds: Int64[np.ndarray, " bounds"], room: int) -> Cut:
    """Keep the whole words that fit into one window (or the start of a first word that does not).

    Args:
        bounds: word k holds the subwords ``bounds[k]`` to ``bounds[k + 1]`` (excluded).
        room: most subwords of a window, at least 1.
    """
    fitting = int(np.searchsorted(bounds, room, side="right")) - 1
    stop = int(bounds[fitting]) if fitting else room
    return Cut(((0, stop),), len(bounds) - 1 - fitting)


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
            return Cut(tuple(spans), truncated)
        # The next window overlaps this one and holds the word after it. The overlap shrinks where
        # that word would not fit behind it, down to none for a word as long as the window.
        overlap = min(room // 4, max(0, room - int(bounds[stop + 1] - bounds[stop])))
        first = int(np.searchsorted(bounds, bounds[stop] - overlap, side="left"))
