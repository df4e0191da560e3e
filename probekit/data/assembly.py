"""Cut tokenised examples into windows and put them together as an ``EncodedSplit``."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int32, Int64

from probekit.base.numbers.ragged import bounds_of, ragged_arange
from probekit.data.encoded import EncodedSplit
from probekit.data.subwords import Specials, Subwords
from probekit.data.windows import OVERLONG, stride, truncate
from probekit.errors import DataError, OptionError


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
    truncated_words: int


def cut_windows(content: Subwords, room: int, overlong: str, *, keep_empty: bool) -> Windows:
    """Give every example one window, and an overlong one what its plan says.

    Args:
        content: the subwords, without special tokens.
        room: most subwords of a window, special tokens not counted.
        overlong: how a longer example is read: ``truncate``, else in overlapping windows.
        keep_empty: whether an example without subwords has a window (of special tokens).
    """
    lengths = np.diff(content.bounds)
    per_example = np.where((lengths > 0) | keep_empty, 1, 0)
    plan = truncate if overlong == "truncate" else stride
    plans = {
        int(example): plan(_word_bounds(content, int(example)), room)
        for example in np.flatnonzero(lengths > room)
    }
    for example, found in plans.items():
        per_example[example] = len(found.spans)
    start = np.repeat(content.bounds[:-1], per_example)
    stop = np.repeat(content.bounds[1:], per_example)
    first_window = bounds_of(per_example)
    for example, found in plans.items():
        place = slice(first_window[example], first_window[example + 1])
        start[place], stop[place] = content.bounds[example] + np.array(found.spans).T
    truncated = sum(found.truncated_words for found in plans.values())
    return Windows(start=start, stop=stop, per_example=per_example, truncated_words=truncated)


def _word_bounds(content: Subwords, example: int) -> Int64[np.ndarray, " bounds"]:
    """Return where the words that have subwords start within one example, and its length."""
    owners = content.words[content.bounds[example] : content.bounds[example + 1]]
    changes = np.flatnonzero(np.diff(owners)) + 1
    return np.concatenate([[0], changes, [len(owners)]]).astype(np.int64)


def assemble(
    content: Subwords,
    windows: Windows,
    specials: Specials,
    ids: tuple[str, ...],
    n_words: Int64[np.ndarray, " examples"],
) -> EncodedSplit:
    """Put special tokens around the windows, and give every word its place.

    Args:
        content: the subwords, without special tokens.
        windows: made of them.
        specials: what goes around each window.
        ids: name of each example.
        n_words: words of each example, those without subwords included.
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
    example_words = bounds_of(n_words)
    example = np.repeat(np.arange(len(ids)), windows.per_example)
    spans = choose_windows(
        window=np.repeat(np.arange(len(inner)), inner),
        word=np.repeat(example_words[example], inner) + word_map[place],
        inner=inner,
        n_words=int(example_words[-1]),
    )
    spans[1:, spans[0] >= 0] += len(specials.prefix)
    averaged = None
    if len(inner) and int(windows.per_example.max()) > 1:
        row = np.repeat(example_words[example], inner) + word_map[place]
        averaged = np.zeros(bounds[-1], bool)
        averaged[place] = spans[0][row] == np.repeat(np.arange(len(inner)), inner)
        _average_outer_specials(averaged, bounds, windows.per_example, specials)
    return EncodedSplit(
        ids=ids,
        subwords=subwords,
        word_map=word_map,
        window_lengths=lengths,
        example_windows=bounds_of(windows.per_example),
        example_words=example_words,
        word_window=spans[0],
        word_first=spans[1],
        word_last=spans[2],
        truncated_words=windows.truncated_words,
        averaged=averaged,
    )


def _average_outer_specials(
    averaged: Bool[np.ndarray, " tokens"],
    bounds: Int64[np.ndarray, " bounds"],
    per_example: Int64[np.ndarray, " examples"],
    specials: Specials,
) -> None:
    """Count the specials before each example's first window and after its last one."""
    first = bounds_of(per_example)[:-1][per_example > 0]
    last = (bounds_of(per_example)[1:] - 1)[per_example > 0]
    for offset in range(len(specials.prefix)):
        averaged[bounds[first] + offset] = True
    for offset in range(1, len(specials.suffix) + 1):
        averaged[bounds[last + 1] - offset] = True


def choose_windows(
    *,
    window: Int64[np.ndarray, " subwords"],
    word: Int64[np.ndarray, " subwords"],
    inner: Int[np.ndarray, " windows"],
    n_words: int,
) -> Int32[np.ndarray, "3 words"]:
    """Return each word's window, first and last position, specials not counted; -1 for none.

    A word in several windows takes the one in which it lies farthest from an edge, the earliest
    of equals.

    Args:
        window: window of each subword.
        word: word row of each subword.
        inner: subwords of each window.
        n_words: R.
    """
    spans = np.full((3, n_words), -1, np.int32)
    if not word.size:
        return spans
    change = (np.diff(window) != 0) | (np.diff(word) != 0)
    begins = np.concatenate([[0], np.flatnonzero(change) + 1])
    ends = np.concatenate([begins[1:], [len(word)]]) - 1
    owner, row = window[begins], word[begins]
    window_start = bounds_of(inner)[owner]
    first, last = begins - window_start, ends - window_start
    depth = np.minimum(first, inner[owner] - 1 - last)
    order = np.lexsort((owner, -depth, row))
    best = order[np.concatenate([[True], np.diff(row[order]) != 0])]
    spans[:, row[best]] = np.stack([owner, first, last])[:, best]
    return spans
