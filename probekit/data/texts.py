"""Encode sentences of pre-split words, and running texts, which the tokenizer splits itself."""

from collections.abc import Sequence

import numpy as np
from tokenizers import Encoding
from transformers import PreTrainedTokenizerBase

from probekit.data.alignment import (
    backend,
    check_word_separation,
    encode_portions,
    learn_specials,
)
from probekit.data.assembly import encode_content
from probekit.data.encoded import EncodedSplit, Subwords
from probekit.data.windows import check_limits


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
    check_limits(max_length, len(specials), overlong)
    found = encode_portions(backend(tokenizer), ids, words, of_words=True)
    content = Subwords.gather((encoding.ids, encoding.word_ids) for encoding in found)
    n_words = np.fromiter(map(len, words), np.int64)
    return encode_content(
        content, specials, ids, max_length=max_length, overlong=overlong, n_words=n_words
    )


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
        overlong: see ``encode_words``.

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
    found = encode_portions(backend(tokenizer), ids, texts)
    content = Subwords.gather(
        (encoding.ids, _short_words(encoding, text, room))
        for encoding, text in zip(found, texts, strict=True)
    )
    return encode_content(content, specials, ids, max_length=max_length, overlong=overlong)


def _short_words(encoding: Encoding, text: str, room: int) -> Sequence[int | None]:
    """Return the word of each subword, none longer than a window.

    A tokenizer that does not split at spaces (Llama 2's) calls the whole text one word. Such a
    word is cut at spaces, and where that does not do (Chinese, say), anywhere.
    """
    if len(encoding.ids) <= room:
        return encoding.word_ids
    owners = np.array(encoding.word_ids, np.int32)
    if np.unique(owners, return_counts=True)[1].max() <= room:
        return encoding.word_ids
    change = np.diff(owners, prepend=-1) != 0
    # a subword holds the space before it, or begins right after one
    change |= [not at or any(map(str.isspace, text[at - 1 : at + 1])) for at, _ in encoding.offsets]
    owners = np.cumsum(change) - 1
    sizes = np.bincount(owners)
    change |= sizes[owners] > room
    return (np.cumsum(change) - 1).tolist()
