"""Align pre-split words with the subwords of any fast tokenizer."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import cast

import numpy as np
from jaxtyping import Int32
from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerBase

from probekit.data.subwords import Specials, Subwords
from probekit.errors import BackboneError, DataError

# Encodings hold far more than ids; this many at a time keeps them within some 100 MB.
_SENTENCES_PER_CALL = 4096
_PROBES = (("ab", "cd"), ("EU", "rejects"), ("Paris", "in", "1996"))


def backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    """Return the Rust tokenizer inside, with the truncation and padding of its file switched off.

    Raises:
        BackboneError: the tokenizer has no fast version.
    """
    if not tokenizer.is_fast:
        raise BackboneError(
            f"tokenizer {tokenizer.name_or_path or type(tokenizer).__name__!r} has no fast "
            "version, which word alignment needs. Choose a model with a tokenizer.json."
        )
    inner = tokenizer.backend_tokenizer
    inner.no_truncation()  # all-MiniLM-L6-v2's file cuts at 128 subwords and pads to 128
    inner.no_padding()
    return inner


def check_word_separation(tokenizer: PreTrainedTokenizerBase) -> None:
    """Prove that pre-split words are tokenised as words of a text, not glued together.

    Byte-level tokenizers (RoBERTa, GPT-2) loaded without ``add_prefix_space=True`` glue them
    without a word: EU, rejects becomes EUrejects.

    Raises:
        BackboneError: the words of a probe come out otherwise than in running text, or the
            tokenizer has no fast version.
    """
    inner = backend(tokenizer)
    for words in _PROBES:
        found = _encode(inner, [words])[0].ids
        text = " ".join(words)
        expected = [inner.encode(start + text, add_special_tokens=False).ids for start in ("", " ")]
        if found not in expected:
            raise BackboneError(
                f"tokenizer {tokenizer.name_or_path or type(tokenizer).__name__!r} glues pre-split "
                f"words together: {' + '.join(words)} gives {inner.id_to_token(found[0])!r}... as "
                f"in {''.join(words)!r}, not as in {text!r}. Load it with add_prefix_space=True."
            )


def learn_specials(tokenizer: PreTrainedTokenizerBase) -> Specials:
    """Return the special tokens around a text, found by encoding one.

    Raises:
        BackboneError: the tokenizer has no fast version, or adds more than a prefix and a suffix.
    """
    inner = backend(tokenizer)
    words = _PROBES[0]
    content = _encode(inner, [words])[0].ids
    whole = inner.encode(words, is_pretokenized=True, add_special_tokens=True)
    start = next((i for i, word in enumerate(whole.word_ids) if word is not None), 0)
    prefix, suffix = whole.ids[:start], whole.ids[start + len(content) :]
    if whole.ids != [*prefix, *content, *suffix]:
        raise BackboneError(
            f"tokenizer {tokenizer.name_or_path or type(tokenizer).__name__!r} changes a text when "
            f"it adds special tokens: {content} became {whole.ids}. It cannot be used."
        )
    return Specials(tuple(prefix), tuple(suffix))


def tokenize(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[str], words: Sequence[Sequence[str]]
) -> Subwords:
    """Tokenise pre-split sentences, each as a whole and without special tokens.

    Args:
        tokenizer: a fast tokenizer that passes ``check_word_separation``.
        ids: names of the examples, for messages.
        words: each example's words.

    Returns:
        The subwords; a word that the tokenizer deletes has none.

    Raises:
        BackboneError: the tokenizer has no fast version.
        DataError: a word is not valid Unicode (a lone surrogate).
    """
    inner = backend(tokenizer)
    pieces: list[Int32[np.ndarray, " n"]] = []
    owners: list[Int32[np.ndarray, " n"]] = []
    lengths: list[int] = []
    for start in range(0, len(words), _SENTENCES_PER_CALL):
        part = slice(start, start + _SENTENCES_PER_CALL)
        found = _encode_checked(inner, ids[part], words[part])
        numbers = [encoding.ids for encoding in found]
        pieces.append(_flat(chain.from_iterable(numbers)))
        owners.append(_flat(chain.from_iterable(map(_owners, found))))
        lengths.extend(map(len, numbers))
    bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    empty = np.empty(0, np.int32)
    return Subwords(
        ids=np.concatenate([empty, *pieces]),
        words=np.concatenate([empty, *owners]),
        bounds=bounds,
    )


def _flat(numbers: Iterator[int]) -> Int32[np.ndarray, " n"]:
    return np.fromiter(numbers, np.int32)


def _owners(encoding: Encoding) -> list[int]:
    # without special tokens every subword belongs to a word; np.fromiter refuses a None
    return cast("list[int]", encoding.word_ids)


def _encode(inner: Tokenizer, words: Sequence[Sequence[str]]) -> list[Encoding]:
    return inner.encode_batch(words, is_pretokenized=True, add_special_tokens=False)


def _encode_checked(
    inner: Tokenizer, ids: Sequence[str], words: Sequence[Sequence[str]]
) -> list[Encoding]:
    try:
        return _encode(inner, words)
    except (TypeError, UnicodeEncodeError) as error:
        for name, sentence in zip(ids, words, strict=True):
            for position, word in enumerate(sentence):
                if not word.isascii() and word.encode("utf-8", "ignore").decode() != word:
                    raise DataError(
                        f"example {name}: word {position + 1} ({word!a}) is not valid Unicode: it "
                        "holds half of a surrogate pair. Correct the file."
                    ) from error
        raise
