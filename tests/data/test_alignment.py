"""Words stay apart, and what stands around them is learned, for every kind of fast tokenizer."""

from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import ByT5Tokenizer

from probekit.data import texts as texts_module
from probekit.data.encoded import Subwords
from probekit.data.texts import backend, check_word_separation, encode_portions, learn_specials
from probekit.errors import BackboneError, DataError
from tests import tiny
from tests.data.samples import TOKENIZERS, tokenizer


def tokenize(chosen, ids, words):
    found = encode_portions(backend(chosen), ids, words, of_words=True)
    return Subwords.gather((encoding.ids, encoding.word_ids) for encoding in found)


def _ids(sentences):
    return [f"train-{i}" for i in range(len(sentences))]


@pytest.mark.parametrize(
    ("name", "prefix", "suffix"),
    [
        ("bert", ["[CLS]"], ["[SEP]"]), ("roberta", ["<s>"], ["</s>"]), ("gpt2", [], []),
        ("llama", ["<s>"], []), ("t5", [], ["</s>"]),
    ],
)  # fmt: skip
def test_specials(name, prefix, suffix):
    chosen = tokenizer(name)
    specials = learn_specials(chosen)
    assert chosen.convert_ids_to_tokens(specials.prefix) == prefix
    assert chosen.convert_ids_to_tokens(specials.suffix) == suffix
    assert len(specials) == len(prefix) + len(suffix)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_separated_words_pass(name):
    check_word_separation(tokenizer(name))


@pytest.mark.parametrize("name", ["roberta", "gpt2"])
def test_glued_words_are_refused(name):
    with pytest.raises(BackboneError, match=r"glues pre-split words .* add_prefix_space=True"):
        check_word_separation(tiny.tokenizer_of(name))

    late = tiny.build_tokenizer(name)
    late.add_prefix_space = True  # the trap: it changes nothing in the Rust tokenizer
    with pytest.raises(BackboneError, match="glues"):
        check_word_separation(late)


def test_no_fast_version_is_refused():
    for use in (check_word_separation, learn_specials):
        with pytest.raises(BackboneError, match="'ByT5Tokenizer' has no fast version"):
            use(ByT5Tokenizer())


def test_deleted_words_have_no_subword():
    found = tokenize(tokenizer("bert"), ["dev-0"], [["EU", "", "\u200b", "\x07", "EU"]])
    assert set(found.words.tolist()) == {0, 4}


def test_truncation_and_padding_of_the_file_are_switched_off():
    chosen = tiny.build_tokenizer("bert")
    words = [["EU"] * 50, ["EU"]]
    whole = tokenize(chosen, _ids(words), words)
    chosen.backend_tokenizer.enable_truncation(8)
    chosen.backend_tokenizer.enable_padding(length=128)
    found = tokenize(chosen, _ids(words), words)
    assert found.ids.tolist() == whole.ids.tolist()
    assert found.bounds.tolist() == whole.bounds.tolist() == [0, 100, 102]


def test_half_a_surrogate_pair_names_the_example():
    with pytest.raises(DataError, match=r"example train-1: word 2 \('\\ud83d'\) is not valid"):
        tokenize(tokenizer("bert"), ["train-0", "train-1"], [["fine"], ["so", "\ud83d"]])


@settings(max_examples=30)
@given(lengths=st.lists(st.integers(0, 40), max_size=30), most=st.integers(1, 50))
def test_portions_hold_every_text_once_and_are_bounded(lengths, most):
    texts = ["x" * length for length in lengths]
    inner = Mock(spec=Tokenizer)
    inner.encode_batch.side_effect = lambda given, **options: given
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts_module, "_CALL", most)
        assert list(encode_portions(inner, texts, texts)) == texts
    parts = [call.args[0] for call in inner.encode_batch.call_args_list]
    assert [text for part in parts for text in part] == texts
    assert all(sum(map(len, part)) < most + 40 for part in parts)
