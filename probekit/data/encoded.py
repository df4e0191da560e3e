"""A split as the model reads it: windows of subwords, and every word's place in them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int32, Int64
from transformers import PreTrainedTokenizerBase

from probekit.data.alignment import (
    Specials,
    Subwords,
    check_word_separation,
    learn_specials,
    tokenize,
)
from probekit.data.windows import OVERLONG, stride, truncate
from probekit.errors import DataError, OptionError
from probekit.ragged import bounds_of, ragged_arange


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedSplit:
    """Columns over all examples of a split (N examples, R words, T subwords).

    Every word has one row, also one that the tokenizer deletes. Windows hold their special
    tokens; a window has a subword, so an example may have no window.

    Attributes:
        ids: name of each example.
        subwords: vocabulary ids of all windows, one after the other.
        word_map: word within its example of each subword; -1 for a special token.
        window_lengths: subwords of each window.
        example_windows: example i has the windows ``[i]`` to ``[i + 1]`` (excluded).
        example_words: example i has the word rows ``[i]`` to ``[i + 1]`` (excluded).
        word_window: window that each word takes its row from; -1 for a word without subwords.
        word_first: the word's first position in that window; -1 for none.
        word_last: the word's last position in that window, not one past it; -1 for none.
        truncated_words: words of which no window holds every subword.
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
        """Rows of each example in the arrays ``words`` and ``tokens``."""
        return {"words": np.diff(self.example_words), "tokens": np.diff(self.example_tokens)}

    @property
    def counts(self) -> dict[str, int]:
        """The totals that a manifest reports."""
        return {
            "examples": len(self.ids),
            "words": len(self.word_window),
            "valid_words": int(self.valid.sum()),
            "tokens": len(self.subwords),
            "windows": len(self.window_lengths),
            "truncated_words": self.truncated_words,
        }


def encode_words(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[str],
    words: Sequence[Sequence[str]],
    *,
    max_length: int,
    overlong: str = "stride",
) -> EncodedSplit:
    """Tokenise pre-split examples and cut them into windows.

    Args:
        tokenizer: a fast tokenizer.
        ids: name of each example.
        words: words of each example.
        max_length: most subwords of a window, special tokens included.
        overlong: what to do with a longer example: read it in overlapping windows, cut it, or
            refuse it.

    Raises:
        BackboneError: the tokenizer is not fast, or glues pre-split words together.
        DataError: an example is too long and ``overlong`` is ``error``, or is not valid Unicode.
        OptionError: ``max_length`` leaves no room beside the special tokens, or ``overlong`` is
            none of the three.
    """
    assert len(ids) == len(words), f"{len(ids)} ids for {len(words)} examples"
    check_word_separation(tokenizer)
    specials = learn_specials(tokenizer)
    room = max_length - len(specials)
    if room < 1:
        raise OptionError(
            f"--max-length {max_length} leaves no room for text beside the tokenizer's "
            f"{len(specials)} special tokens; give at least {len(specials) + 1}."
        )
    if overlong not in OVERLONG:
        raise OptionError(f"--overlong {overlong!r} is none of: {', '.join(OVERLONG)}.")
    content = tokenize(tokenizer, ids, words)
    if overlong == "error":
        _refuse_overlong(content, ids, specials, max_length)
    windows = _windows(content, room, overlong, keep_empty=len(specials) > 0)
    return _assemble(content, windows, specials, tuple(ids), np.fromiter(map(len, words), np.int64))


def _refuse_overlong(
    content: Subwords, ids: Sequence[str], specials: Specials, max_length: int
) -> None:
    lengths = np.diff(content.bounds) + len(specials)
    too_long = np.flatnonzero(lengths > max_length)
    if too_long.size:
        first = int(too_long[0])
        others = f" ({too_long.size - 1} more are too long)" if too_long.size > 1 else ""
        raise DataError(
            f"example {ids[first]} has {lengths[first]} subwords with special tokens, more than "
            f"the limit of {max_length}{others}. Shorten it, or use --overlong stride or truncate."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Windows:
    """Windows as runs of ``Subwords``: (start, stop), in order, and how many each example has."""

    start: Int64[np.ndarray, " windows"]
    stop: Int64[np.ndarray, " windows"]
    per_example: Int64[np.ndarray, " examples"]
    truncated_words: int


def _windows(content: Subwords, room: int, overlong: str, *, keep_empty: bool) -> _Windows:
    """Give every example one window, and an overlong one what its plan says."""
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
    return _Windows(start=start, stop=stop, per_example=per_example, truncated_words=truncated)


def _word_bounds(content: Subwords, example: int) -> Int64[np.ndarray, " bounds"]:
    """Return where the words that have subwords start within one example, and its length."""
    owners = content.words[content.bounds[example] : content.bounds[example + 1]]
    changes = np.flatnonzero(np.diff(owners)) + 1
    return np.concatenate([[0], changes, [len(owners)]]).astype(np.int64)


def _assemble(
    content: Subwords,
    windows: _Windows,
    specials: Specials,
    ids: tuple[str, ...],
    n_words: Int64[np.ndarray, " examples"],
) -> EncodedSplit:
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
    spans = _choose_windows(
        window=np.repeat(np.arange(len(inner)), inner),
        word=np.repeat(example_words[example], inner) + word_map[place],
        inner=inner,
        n_words=int(example_words[-1]),
    )
    spans[1:, spans[0] >= 0] += len(specials.prefix)
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
    )


def _choose_windows(
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
