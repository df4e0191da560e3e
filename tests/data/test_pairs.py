"""Pairs come out as the tokenizer's own longest-first truncation makes them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

from probekit.data.texts import encode_pairs, has_separator, longest_first
from probekit.errors import DataError, OptionError
from tests import tiny
from tests.data.samples import AWKWARD
from tests.data.test_texts import tokenizer

WORDS = st.one_of(
    st.sampled_from([word for word in AWKWARD if "\n" not in word]),
    st.sampled_from(" ".join(tiny.SENTENCES).split()),
)
TEXT = st.lists(WORDS, max_size=12).map(" ".join)
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=4)
SEPARATING = ("bert", "roberta", "deberta-v2", "t5", "minilm")


def encode(name, pairs, **options):
    ids = [f"dev-{i}" for i in range(len(pairs))]
    return encode_pairs(tokenizer(name), ids, pairs, **options)


def windows_of(values, split):
    return [values[a:b].tolist() for a, b in itertools.pairwise(split.window_bounds)]


@pytest.mark.parametrize("name", SEPARATING)
@settings(max_examples=15)
@given(pairs=PAIRS, length=st.integers(6, 30))
def test_pairs_equal_the_tokenizer_s_own_truncation(name, pairs, length):
    split = encode(name, pairs, max_length=length, token_types=True)
    firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
    expected = {"input_ids": [], "token_type_ids": []}
    if pairs:
        how = {"truncation": "longest_first", "max_length": length, "return_token_type_ids": True}
        expected = tokenizer(name)(firsts, seconds, **how)
    tokenizer(name).backend_tokenizer.no_truncation()
    assert windows_of(split.subwords, split) == expected["input_ids"]
    types = np.zeros_like(split.subwords) if split.token_types is None else split.token_types
    assert windows_of(types, split) == expected["token_type_ids"]
    whole = [len(ids) for ids in tokenizer(name)(firsts, seconds)["input_ids"]] if pairs else []
    assert split.counts["truncated_examples"] == sum(size > length for size in whole)
    assert split.counts["windows"] == len(pairs)


def test_words_of_the_second_text_come_after_those_of_the_first():
    split = encode("bert", [("EU rejects", "call .")], max_length=40)
    words = split.word_map[split.word_map >= 0]
    assert words[0] == 0 and set(words) == {0, 1, 2, 3} and (np.diff(words) >= 0).all()
    assert (split.word_map[[0, -1]] == -1).all() and (split.word_map == -1).sum() == 3


def test_who_has_a_separator():
    names = ("bert", "roberta", "deberta-v2", "t5", "llama", "gpt2")
    found = {name: has_separator(tokenizer(name)) for name in names}
    assert found == {name: name not in ("llama", "gpt2") for name in names}


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@settings(max_examples=15)
@given(pairs=PAIRS, length=st.integers(6, 30))
def test_without_a_separator_a_pair_is_two_lines(name, pairs, length):
    split = encode(name, pairs, max_length=length)
    made = tokenizer(name)
    for i, (first, second) in enumerate(pairs):
        whole = made(f"{first}\n{second}")["input_ids"]
        place = slice(split.example_tokens[i], split.example_tokens[i + 1])
        found = split.subwords[place].tolist()
        assert len(found) == min(len(whole), length)
        assert found == whole or len(whole) > length
    assert split.counts["truncated_examples"] == sum(
        len(made(f"{a}\n{b}")["input_ids"]) > length for a, b in pairs
    )


def test_both_lines_are_cut_and_the_line_s_end_stays():
    made = tokenizer("gpt2")
    first, second = "call " * 10 + "EU", "lamb " * 20 + "."
    a, b = (made(text)["input_ids"] for text in (first, second))
    end = made("\n")["input_ids"]
    split = encode("gpt2", [(first, second)], max_length=11)
    room = 11 - len(end)
    one, two = longest_first(len(a), len(b), room)
    assert split.subwords.tolist() == [*a[:one], *end, *b[:two]]
    assert abs(one - two) <= 1


def test_a_subword_that_holds_the_line_s_end_and_more_stays_as_well():
    inner = Tokenizer(WordLevel({"[UNK]": 0, "a": 1, "b": 2, ".\n": 3}, unk_token="[UNK]"))
    inner.pre_tokenizer = Split(Regex(r"\.\n|\w| "), "isolated")  # as those of Llama 3 and Qwen
    made = PreTrainedTokenizerFast(tokenizer_object=inner)
    split = encode_pairs(made, ["1"], [("a" * 8 + ".", "b" * 4)], max_length=7, token_types=False)
    assert split.subwords.tolist() == [1, 1, 1, 3, 2, 2, 2]


@settings(max_examples=15)
@given(first=st.integers(0, 40), second=st.integers(0, 40), room=st.integers(2, 50))
def test_longest_first_is_the_library_s_rule(first, second, room):
    made = tokenizer("bert")
    # in a list: alone, an empty second text is taken for none
    pair = ([" ".join(["."] * first)], [" ".join(["."] * second)])
    found = made(*pair, truncation="longest_first", max_length=room + 3)
    made.backend_tokenizer.no_truncation()
    texts = found.sequence_ids(0)
    assert longest_first(first, second, room) == (texts.count(0), texts.count(1))


def test_what_cannot_be_read():
    pairs = [("EU", "rejects"), ("call " * 30, "EU")]
    for name in ("bert", "gpt2"):
        with pytest.raises(DataError, match=r"example dev-1 has \d+ subwords .* limit of 12"):
            encode(name, pairs, max_length=12, overlong="error")
        assert encode(name, pairs[:1], max_length=12, overlong="error").counts["windows"] == 1
        with pytest.raises(OptionError, match="leaves no room for text"):
            encode(name, pairs, max_length=2)
        with pytest.raises(DataError, match=r"example dev-0: character 3 .* is not valid Unicode"):
            encode(name, [("EU\ud800", "x")], max_length=12)
