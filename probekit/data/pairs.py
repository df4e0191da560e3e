"""Encode pairs of texts: in one window, the longer one cut first."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from jaxtyping import Int32
from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerBase

from probekit.data.alignment import backend
from probekit.data.assembly import check_limits, refuse_overlong
from probekit.data.encoded import EncodedSplit
from probekit.data.joined import encode_joined
from probekit.data.texts import refuse_broken

_PAIRS_PER_CALL = 1024
_ROOM = 2  # a subword of each text


def encode_pairs(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    *,
    max_length: int,
    overlong: str = "stride",
    token_types: bool = False,
) -> EncodedSplit:
    """Tokenise pairs of texts as the tokenizer itself does, each into one window.

    A pair that is too long is cut by the tokenizer's own rule ``longest_first``. A tokenizer that
    puts no separator between two texts (GPT-2's, Llama's) reads them as two lines of one text.

    Args:
        tokenizer: a fast tokenizer, as its files describe it.
        ids: name of each pair.
        pairs: first and second texts.
        max_length: most subwords of a window, special tokens included.
        overlong: what to do with a longer pair: ``error`` refuses it, the others cut it.
        token_types: keep the number of the text that the tokenizer gives each subword.

    Returns:
        The split, without word rows; the words of ``word_map`` count on from the first text to
        the second.

    Raises:
        BackboneError: the tokenizer is not fast.
        DataError: a pair is too long and ``overlong`` is ``error``, or is not valid Unicode.
        OptionError: ``max_length`` leaves no room for two texts, or ``overlong`` is unknown.
    """
    assert len(ids) == len(pairs), f"{len(ids)} ids for {len(pairs)} pairs"
    if not has_separator(tokenizer):
        return encode_joined(tokenizer, ids, pairs, max_length=max_length, overlong=overlong)
    inner = backend(tokenizer)
    check_limits(max_length, inner.num_special_tokens_to_add(True), overlong, least=_ROOM)
    if overlong == "error":
        lengths = np.fromiter(map(len, _encode(inner, ids, pairs)), np.int64, len(pairs))
        refuse_overlong(lengths, ids, max_length)
    inner.enable_truncation(max_length, strategy="longest_first")
    try:
        return _assemble(tuple(ids), _encode(inner, ids, pairs), token_types=token_types)
    finally:
        inner.no_truncation()


def has_separator(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Say whether a tokenizer puts its separator, or its end-of-text token, between two texts.

    A token that begins a text (Llama's ``<s>``) is no separator: inside a text no model has seen
    it.
    """
    found = backend(tokenizer).encode("ab", "cd")
    texts = found.sequence_ids
    between = found.ids[len(texts) - texts[::-1].index(0) : texts.index(1)]
    return not {tokenizer.sep_token_id, tokenizer.eos_token_id}.isdisjoint(between)


def _encode(
    inner: Tokenizer, ids: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> list[Encoding]:
    found: list[Encoding] = []
    for start in range(0, len(pairs), _PAIRS_PER_CALL):
        part = slice(start, start + _PAIRS_PER_CALL)
        try:
            found += inner.encode_batch(list(pairs[part]))
        except (TypeError, UnicodeEncodeError) as error:
            refuse_broken(ids[part], ["".join(pair) for pair in pairs[part]], error)
            raise
    return found


def _assemble(
    ids: tuple[str, ...], encodings: Sequence[Encoding], *, token_types: bool
) -> EncodedSplit:
    none = np.empty(0, np.int32)
    lengths = np.fromiter(map(len, encodings), np.int32, len(encodings))
    types = _flat([encoding.type_ids for encoding in encodings])
    return EncodedSplit(
        ids=ids,
        subwords=_flat([encoding.ids for encoding in encodings]),
        word_map=np.concatenate([none, *map(_words, encodings)]),
        window_lengths=lengths,
        example_windows=np.arange(len(ids) + 1, dtype=np.int64),
        example_words=np.zeros(len(ids) + 1, np.int64),
        word_window=none,
        word_first=none,
        word_last=none,
        truncated_words=0,
        token_types=types if token_types and types.any() else None,
        truncated_examples=sum(bool(encoding.overflowing) for encoding in encodings),
    )


def _flat(values: Sequence[Sequence[int]]) -> Int32[np.ndarray, " subwords"]:
    return np.fromiter(chain.from_iterable(values), np.int32)


def _words(encoding: Encoding) -> Int32[np.ndarray, " subwords"]:
    """Return each subword's word, -1 for special tokens; the second text's come after."""
    words = np.array([-1 if word is None else word for word in encoding.word_ids], np.int32)
    texts = np.array([-1 if text is None else text for text in encoding.sequence_ids], np.int32)
    words[texts < 0] = -1
    words[texts == 1] += words[texts == 0].max(initial=-1) + 1
    return words
