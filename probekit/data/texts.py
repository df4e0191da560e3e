"""Encode running texts, which the tokenizer splits into words by its own rules."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int32, Int64
from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerBase

from probekit.base.numbers.ragged import bounds_of
from probekit.data.alignment import backend, learn_specials
from probekit.data.assembly import assemble, check_limits, cut_windows, refuse_overlong
from probekit.data.encoded import EncodedSplit
from probekit.data.subwords import Subwords
from probekit.errors import DataError

_TEXTS_PER_CALL = 1024


def encode_texts(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[str],
    texts: Sequence[str],
    *,
    max_length: int,
    overlong: str = "stride",
) -> EncodedSplit:
    """Tokenise running texts and cut them into windows, as ``encode_words`` does with words.

    Args:
        tokenizer: a fast tokenizer, as its files describe it (not told to split words).
        ids: name of each text.
        texts: the texts.
        max_length: most subwords of a window, special tokens included.
        overlong: what to do with a longer text: read it in overlapping windows, cut it, or refuse
            it.

    Returns:
        The split, without word rows. Windows end between the tokenizer's own words.

    Raises:
        BackboneError: the tokenizer is not fast.
        DataError: a text is too long and ``overlong`` is ``error``, or is not valid Unicode.
        OptionError: ``max_length`` leaves no room beside the special tokens, or ``overlong`` is
            none of the three.
    """
    assert len(ids) == len(texts), f"{len(ids)} ids for {len(texts)} texts"
    specials = learn_specials(tokenizer)
    check_limits(max_length, len(specials), overlong)
    room = max_length - len(specials)
    content = _tokenize(backend(tokenizer), ids, texts, room)
    lengths = np.diff(content.bounds)
    if overlong == "error":
        refuse_overlong(lengths + len(specials), ids, max_length)
    windows = cut_windows(content, room, overlong, keep_empty=len(specials) > 0)
    split = assemble(content, windows, specials, tuple(ids), count_words(content))
    cut = int((lengths > room).sum()) if overlong == "truncate" else 0
    return without_words(split, truncated_examples=cut)


def count_words(content: Subwords) -> Int64[np.ndarray, " examples"]:
    """Return how many words the tokenizer finds in each text: one more than the last one's number.

    A word that the tokenizer numbers and then deletes is counted, so that numbers are places.
    """
    lengths = np.diff(content.bounds)
    counts = np.zeros(len(lengths), np.int64)
    counts[lengths > 0] = content.words[content.bounds[1:][lengths > 0] - 1] + 1
    return counts


def without_words(split: EncodedSplit, *, truncated_examples: int) -> EncodedSplit:
    """Return the split of running texts: the tokenizer's own words have no rows."""
    none = np.empty(0, np.int32)
    return replace(
        split,
        example_words=np.zeros(len(split.ids) + 1, np.int64),
        word_window=none,
        word_first=none,
        word_last=none,
        truncated_words=0,
        truncated_examples=truncated_examples,
    )


def refuse_broken(ids: Sequence[str], texts: Sequence[str], cause: Exception) -> None:
    """Name the first text that is not valid Unicode, if any.

    Raises:
        DataError: there is one.
    """
    for name, text in zip(ids, texts, strict=True):
        broken = next((place for place, c in enumerate(text) if "\ud800" <= c <= "\udfff"), None)
        if broken is not None:
            raise DataError(
                f"example {name}: character {broken + 1} ({text[broken]!a}) is not valid Unicode: "
                "it is half of a surrogate pair. Correct the file."
            ) from cause


def _tokenize(inner: Tokenizer, ids: Sequence[str], texts: Sequence[str], room: int) -> Subwords:
    pieces = [np.empty(0, np.int32)]
    owners = [np.empty(0, np.int32)]
    lengths: list[int] = []
    for start in range(0, len(texts), _TEXTS_PER_CALL):
        part = slice(start, start + _TEXTS_PER_CALL)
        try:
            found = inner.encode_batch(list(texts[part]), add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as error:
            refuse_broken(ids[part], texts[part], error)
            raise
        for encoding, text in zip(found, texts[part], strict=True):
            pieces.append(np.array(encoding.ids, np.int32))
            owners.append(_words(encoding, text, room))
            lengths.append(len(encoding.ids))
    return Subwords(
        ids=np.concatenate(pieces),
        words=np.concatenate(owners),
        bounds=bounds_of(np.array(lengths, np.int64)),
    )


def _words(encoding: Encoding, text: str, room: int) -> Int32[np.ndarray, " subwords"]:
    """Return the word of each subword, none longer than a window.

    A tokenizer that does not split at spaces (Llama 2's) calls the whole text one word. Such a
    word is cut at spaces, and where that does not do (Chinese, say), anywhere.
    """
    owners = np.array(encoding.word_ids, np.int32)
    if len(owners) <= room or _longest(owners) <= room:
        return owners
    change = np.diff(owners, prepend=-1) != 0
    change |= [_after_space(text, at) for at, _ in encoding.offsets]
    owners = (np.cumsum(change) - 1).astype(np.int32)
    sizes = np.bincount(owners)
    change |= sizes[owners] > room
    return (np.cumsum(change) - 1).astype(np.int32)


def _after_space(text: str, place: int) -> bool:
    return place == 0 or any(character.isspace() for character in text[place - 1 : place + 1])


def _longest(owners: Int32[np.ndarray, " subwords"]) -> int:
    return int(np.unique(owners, return_counts=True)[1].max())
