"""What is asked of a fast tokenizer: subwords and their words, and the special tokens around."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerBase

from probekit.data.encoded import Specials
from probekit.errors import BackboneError, DataError

_CALL = 500_000
"""Characters that are encoded at a time: encodings take some 50 bytes for each, ids far less."""

_EACH = 10
"""What an input costs besides its characters, in characters."""

_PROBES = (("ab", "cd"), ("EU", "rejects"), ("Paris", "in", "1996"))


def backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    """Return the Rust tokenizer inside, with the truncation and padding of its file switched off.

    Raises:
        BackboneError: the tokenizer has no fast version.
    """
    if not tokenizer.is_fast:
        raise BackboneError(
            f"tokenizer {_name(tokenizer)!r} has no fast version, which word alignment needs. "
            "Choose a model with a tokenizer.json."
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
        ids = inner.encode(words, is_pretokenized=True, add_special_tokens=False).ids
        text = " ".join(words)
        expected = [inner.encode(start + text, add_special_tokens=False).ids for start in ("", " ")]
        if ids not in expected:
            raise BackboneError(
                f"tokenizer {_name(tokenizer)!r} glues pre-split words together: "
                f"{' + '.join(words)} gives {inner.id_to_token(ids[0])!r}... as in "
                f"{''.join(words)!r}, not as in {text!r}. Load it with add_prefix_space=True."
            )


def learn_specials(tokenizer: PreTrainedTokenizerBase) -> Specials:
    """Return the special tokens around a text, found by encoding one.

    Raises:
        BackboneError: the tokenizer has no fast version, or adds more than a prefix and a suffix.
    """
    inner, words = backend(tokenizer), _PROBES[0]
    content = inner.encode(words, is_pretokenized=True, add_special_tokens=False).ids
    whole = inner.encode(words, is_pretokenized=True, add_special_tokens=True)
    start = next((i for i, word in enumerate(whole.word_ids) if word is not None), 0)
    prefix, suffix = whole.ids[:start], whole.ids[start + len(content) :]
    if whole.ids != [*prefix, *content, *suffix]:
        raise BackboneError(
            f"tokenizer {_name(tokenizer)!r} changes a text when it adds special tokens: {content} "
            f"became {whole.ids}. It cannot be used."
        )
    return Specials(tuple(prefix), tuple(suffix))


def encode_portions(
    inner: Tokenizer,
    ids: Sequence[str],
    inputs: Sequence[str | Sequence[str]],
    *,
    of_words: bool = False,
    specials: bool = False,
    ids_alone: bool = False,
) -> Iterator[Encoding]:
    """Yield the encoding of every input; few of them are in memory at a time.

    Args:
        inner: the tokenizer.
        ids: names of the inputs, for messages.
        inputs: running texts, pairs of them, or the words of sentences.
        of_words: whether they are words.
        specials: whether the tokenizer adds its special tokens.
        ids_alone: whether nothing but ids is needed, which is faster.

    Raises:
        DataError: an input is not valid Unicode (a lone surrogate).
    """
    if not inputs:
        return
    encode = inner.encode_batch_fast if ids_alone else inner.encode_batch
    lengths = [len(given) if isinstance(given, str) else sum(map(len, given)) for given in inputs]
    # the inputs of a run end in the same stretch of `_CALL` characters
    call = np.cumsum(np.array(lengths, np.int64) + _EACH) // _CALL
    edges = [0, *(np.flatnonzero(np.diff(call)) + 1).tolist(), len(inputs)]
    for start, stop in pairwise(edges):
        given = list(inputs[start:stop])
        try:
            encodings = encode(given, is_pretokenized=of_words, add_special_tokens=specials)
        except (TypeError, UnicodeEncodeError) as error:
            _refuse_broken(ids[start:stop], given, error, of_words=of_words)
            raise
        yield from encodings


def _refuse_broken(
    ids: Sequence[str], inputs: Sequence[str | Sequence[str]], cause: Exception, *, of_words: bool
) -> None:
    """Name the first input that is not valid Unicode, and its first such word or character."""
    what, is_half = ("word", "it holds") if of_words else ("character", "it is")
    for name, given in zip(ids, inputs, strict=True):
        for position, part in enumerate(given if of_words else "".join(given), start=1):
            if any("\ud800" <= character <= "\udfff" for character in part):
                raise DataError(
                    f"example {name}: {what} {position} ({part!a}) is not valid Unicode: {is_half} "
                    "half of a surrogate pair. Correct the file."
                ) from cause


def _name(tokenizer: PreTrainedTokenizerBase) -> str:
    return tokenizer.name_or_path or type(tokenizer).__name__
