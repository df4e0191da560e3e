"""Encode pairs of texts for a tokenizer without a separator: two lines of one text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerBase

from probekit.base.numbers.ragged import bounds_of
from probekit.data.alignment import backend, learn_specials
from probekit.data.assembly import assemble, check_limits, cut_windows, refuse_overlong
from probekit.data.encoded import EncodedSplit
from probekit.data.subwords import Subwords
from probekit.data.texts import count_words, refuse_broken, without_words

SEPARATOR = "\n"
_ROOM = 3  # a subword of each text and one for the line's end
_PAIRS_PER_CALL = 1024


def encode_joined(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    *,
    max_length: int,
    overlong: str = "stride",
) -> EncodedSplit:
    """Tokenise each pair as one text of two lines, in one window, the longer line cut first.

    Args and errors are those of ``pairs.encode_pairs``.
    """
    specials = learn_specials(tokenizer)
    check_limits(max_length, len(specials), overlong, least=_ROOM)
    room = max_length - len(specials)
    found = _encode(backend(tokenizer), ids, pairs)
    lengths = np.fromiter(map(len, found), np.int64, len(found))
    if overlong == "error":
        refuse_overlong(lengths + len(specials), ids, max_length)
    kept = [
        _kept(encoding, len(first), room) for encoding, (first, _) in zip(found, pairs, strict=True)
    ]
    content = Subwords(
        ids=_taken([encoding.ids for encoding in found], kept),
        words=_taken([encoding.word_ids for encoding in found], kept),
        bounds=bounds_of(np.fromiter(map(len, kept), np.int64, len(kept))),
    )
    windows = cut_windows(content, room, overlong, keep_empty=len(specials) > 0)
    split = assemble(content, windows, specials, tuple(ids), count_words(content))
    return without_words(split, truncated_examples=int((lengths > room).sum()))


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Return how much of two texts is kept: subwords are taken from the longer one's end.

    The tokenizers library's own rule: the shorter one is whole if it takes at most half; else each
    gets half, and an odd subword goes to the longer one.
    """
    if first + second <= room:
        return first, second
    short = min(first, second, room // 2)
    return (short, room - short) if first <= second else (room - short, short)


def _encode(
    inner: Tokenizer, ids: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> list[Encoding]:
    texts = [SEPARATOR.join(pair) for pair in pairs]
    found: list[Encoding] = []
    for start in range(0, len(texts), _PAIRS_PER_CALL):
        part = slice(start, start + _PAIRS_PER_CALL)
        try:
            found += inner.encode_batch(texts[part], add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as error:
            refuse_broken(ids[part], texts[part], error)
            raise
    return found


def _taken(values: Sequence[Sequence[Any]], places: Sequence[np.ndarray]) -> np.ndarray:
    taken = (np.array(row, np.int32)[kept] for row, kept in zip(values, places, strict=True))
    return np.concatenate([np.empty(0, np.int32), *taken])


def _kept(encoding: Encoding, first_length: int, room: int) -> np.ndarray:
    """Return the places of the subwords that fit, those of the line's end among them."""
    starts, stops = np.array(encoding.offsets, np.int64).reshape(-1, 2).T
    if len(starts) <= room:
        return np.arange(len(starts))
    # A subword may hold the first line's last characters as well, as one of ".\n" does.
    is_end = (starts == first_length) | ((starts < first_length) & (first_length < stops))
    ends = int(is_end.sum())
    first = int(((starts < first_length) & ~is_end).sum())
    one, two = longest_first(first, len(starts) - first - ends, room - ends)
    stop = first + ends + two
    return np.concatenate([np.arange(one), np.arange(first, stop)])
