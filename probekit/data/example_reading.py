"""Encode the examples of a task, whatever they are: words, texts or pairs."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from probekit.data.encoded import EncodedSplit
from probekit.data.pairs import encode_pairs
from probekit.data.texts import encode_texts
from probekit.data.words import encode_words
from probekit.tasks import Example


def encode_examples(
    tokenizer: PreTrainedTokenizerBase,
    examples: Sequence[Example],
    *,
    max_length: int,
    overlong: str,
    token_types: bool = False,
) -> EncodedSplit:
    """Tokenise examples and cut them into windows.

    Args:
        tokenizer: for words one that keeps them apart, for texts one as its files describe it.
        examples: all of words, all of one text, or all of two.
        max_length: most subwords of a window, special tokens included.
        overlong: ``stride``, ``truncate`` or ``error``.
        token_types: whether the model is told which of two texts a subword belongs to.

    Raises:
        BackboneError: the tokenizer is not fast, or glues words together.
        DataError: an example is too long and ``overlong`` is ``error``, or is not valid Unicode.
        OptionError: ``max_length`` leaves no room for text.
    """
    ids = [example.id for example in examples]
    if not examples or examples[0].text is None:
        words = [example.words for example in examples]
        return encode_words(tokenizer, ids, words, max_length=max_length, overlong=overlong)
    texts = [_given(example.text) for example in examples]
    if examples[0].text_pair is None:
        return encode_texts(tokenizer, ids, texts, max_length=max_length, overlong=overlong)
    seconds = [_given(example.text_pair) for example in examples]
    return encode_pairs(
        tokenizer,
        ids,
        list(zip(texts, seconds, strict=True)),
        max_length=max_length,
        overlong=overlong,
        token_types=token_types,
    )


def _given(text: str | None) -> str:
    assert text is not None, "the examples of a split are all words, all texts or all pairs"
    return text
