"""Encode words, running texts, and pairs of texts (in one window, the longer one cut first)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerBase

from probekit.data.encoded import EncodedSplit, Specials, Subwords
from probekit.data.token_choice import TokenChoice, Turn, inside
from probekit.data.windows import check_limits, encode_content, refuse_overlong
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
    encodings = encode_portions(backend(tokenizer), ids, words, of_words=True)
    content = Subwords.gather((encoding.ids, encoding.word_ids) for encoding in encodings)
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
    only: TokenChoice | None = None,
    turns: Sequence[Sequence[Turn]] | None = None,
) -> EncodedSplit:
    """Tokenise running texts and cut them into windows, as ``encode_words`` does with words.

    Args:
        tokenizer: a fast tokenizer, as its files describe it (not told to split words).
        ids: name of each text.
        texts: the texts.
        max_length: most subwords of a window, special tokens included.
        overlong: see ``encode_words``.
        only: which tokens have a row; None is all.
        turns: of conversations, where their messages stand; special tokens are in the texts then.

    Returns:
        The split, without word rows. Windows end between the tokenizer's own words.

    Raises:
        BackboneError: the tokenizer is not fast.
        DataError: a text is too long and ``overlong`` is ``error``, or is not valid Unicode.
        OptionError: ``max_length`` leaves no room beside the special tokens, or ``overlong`` is
            none of the three.
    """
    assert len(ids) == len(texts), f"{len(ids)} ids for {len(texts)} texts"
    specials = learn_specials(tokenizer) if turns is None else Specials((), ())
    check_limits(max_length, len(specials), overlong)
    room = max_length - len(specials)
    encodings = encode_portions(backend(tokenizer), ids, texts)
    kept: list[bool] = []

    def content_of(
        encoding: Encoding, text: str, own: Sequence[Turn]
    ) -> tuple[Sequence[int], Sequence[int | None]]:
        if only is not None:
            kept.extend(inside(encoding.offsets, list(only.stretches(text, own))))
        return encoding.ids, _short_words(encoding, text, room)

    content = Subwords.gather(map(content_of, encodings, texts, turns or [()] * len(ids)))
    if only is None:
        return encode_content(content, specials, ids, max_length=max_length, overlong=overlong)
    content = replace(content, kept=np.array(kept, bool))
    split = encode_content(content, specials, ids, max_length=max_length, overlong=overlong)
    return replace(split, kept=only.kept(split))


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


SEPARATOR = "\n"
_ROOM = 2  # a subword of each text
_ROOM_JOINED = 3  # and one for the line's end

# A tokenizer without a separator reads "abc" and "def" as two lines, "abc\ndef". Where a character
# is a subword and there is room for five, of which the line's end takes one:
#
#     subwords          a b c \n d e f
#     starts            0 1 2 3 4 5 6      the first text has 3 characters, so \n is its line's end
#     first line        3 subwords (those that start before), second line 3 (those after it)
#     longest_first     (3, 3, 4) is (2, 2)
#     kept              0 1 | 3 4 5        "ab\nde"


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
        OptionError: ``max_length`` leaves no room for two texts.
        UnknownNameError: there is no such rule ``overlong``.
    """
    assert len(ids) == len(pairs), f"{len(ids)} ids for {len(pairs)} pairs"
    if not has_separator(tokenizer):
        return _encode_joined(tokenizer, ids, pairs, max_length=max_length, overlong=overlong)
    inner = backend(tokenizer)
    check_limits(max_length, inner.num_special_tokens_to_add(True), overlong, least=_ROOM)
    if overlong == "error":
        lengths = map(len, encode_portions(inner, ids, pairs, specials=True))
        refuse_overlong(np.fromiter(lengths, np.int64, len(pairs)), ids, max_length)
    inner.enable_truncation(max_length, strategy="longest_first")
    try:
        encodings = list(encode_portions(inner, ids, pairs, specials=True))
    finally:
        inner.no_truncation()
    return _assemble(tuple(ids), encodings, token_types=token_types)


def has_separator(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Say whether a tokenizer puts its separator, or its end-of-text token, between two texts.

    A token that begins a text (Llama's ``<s>``) is no separator: inside a text no model has seen
    it.
    """
    encoding = backend(tokenizer).encode("ab", "cd")
    texts = encoding.sequence_ids
    between = encoding.ids[len(texts) - texts[::-1].index(0) : texts.index(1)]
    return not {tokenizer.sep_token_id, tokenizer.eos_token_id}.isdisjoint(between)


def _assemble(
    ids: tuple[str, ...], encodings: Sequence[Encoding], *, token_types: bool
) -> EncodedSplit:
    windows = Subwords.gather((encoding.ids, _words(encoding)) for encoding in encodings)
    types = np.fromiter(chain.from_iterable(encoding.type_ids for encoding in encodings), np.int32)
    cut_texts = sum(bool(encoding.overflowing) for encoding in encodings)
    return EncodedSplit(
        ids=ids,
        subwords=windows.ids,
        word_map=windows.words,
        window_lengths=windows.lengths.astype(np.int32),
        example_windows=np.arange(len(ids) + 1, dtype=np.int64),
        example_words=np.zeros(len(ids) + 1, np.int64),
        token_types=types if token_types and types.any() else None,
        cut={"truncated_words": 0, "truncated_examples": cut_texts},
    )


def _words(encoding: Encoding) -> list[int]:
    """Return each subword's word, -1 for special tokens; the second text's come after."""
    words = np.array([-1 if word is None else word for word in encoding.word_ids], np.int32)
    texts = np.array([-1 if text is None else text for text in encoding.sequence_ids], np.int32)
    words[texts < 0] = -1
    words[texts == 1] += words[texts == 0].max(initial=-1) + 1
    return words.tolist()


def _encode_joined(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    *,
    max_length: int,
    overlong: str,
) -> EncodedSplit:
    """Tokenise each pair as one text of two lines, in one window, the longer line cut first."""
    specials = learn_specials(tokenizer)
    check_limits(max_length, len(specials), overlong, least=_ROOM_JOINED)
    room = max_length - len(specials)
    texts = [SEPARATOR.join(pair) for pair in pairs]
    encodings = list(encode_portions(backend(tokenizer), ids, texts))
    lengths = np.fromiter(map(len, encodings), np.int64, len(encodings))
    if overlong == "error":
        refuse_overlong(lengths + len(specials), ids, max_length)
    content = Subwords.gather(
        _kept(encoding, len(first), room)
        for encoding, (first, _) in zip(encodings, pairs, strict=True)
    )
    split = encode_content(content, specials, ids, max_length=max_length, overlong=overlong)
    n_cut = int((lengths > room).sum())
    return replace(split, cut={"truncated_words": 0, "truncated_examples": n_cut})


def _kept(
    encoding: Encoding, first_length: int, room: int
) -> tuple[Sequence[int], Sequence[int | None]]:
    """Return ids and words of the subwords that fit, those of the line's end among them."""
    ids, words = encoding.ids, encoding.word_ids
    if len(ids) <= room:
        return ids, words
    starts, stops = np.array(encoding.offsets, np.int64).T
    # A subword may hold the first line's last characters as well, as one of ".\n" does.
    is_end = (starts == first_length) | ((starts < first_length) & (first_length < stops))
    ends = int(is_end.sum())
    first = int(((starts < first_length) & ~is_end).sum())
    n_first, n_second = longest_first(first, len(ids) - first - ends, room - ends)
    second = slice(first, first + ends + n_second)
    return ids[:n_first] + ids[second], words[:n_first] + words[second]


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Return how much of two texts is kept: subwords are taken from the longer one's end.

    The tokenizers library's own rule: the shorter one is whole if it takes at most half; else each
    gets half, and an odd subword goes to the longer one.
    """
    if first + second <= room:
        return first, second
    short = min(first, second, room // 2)
    return (short, room - short) if first <= second else (room - short, short)
