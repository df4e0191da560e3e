"""Words stay apart, and running texts come out as the tokenizer makes them, also long ones."""

from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, processors
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from probekit.data import texts as texts_of_data
from probekit.data.encoded import Subwords
from probekit.data.texts import (
    backend,
    check_word_separation,
    encode_portions,
    encode_texts,
    learn_specials,
)
from probekit.errors import BackboneError, DataError, OptionError
from tests import tiny
from tests.data.samples import AWKWARD, TOKENIZERS, windows_of
from tests.data.samples import tokenizer as separating

TEXTS = st.lists(
    st.lists(
        st.one_of(
            st.text(max_size=8),
            st.sampled_from(AWKWARD),
            st.sampled_from(" ".join(tiny.SENTENCES).split()),
        ),
        max_size=14,
    ).map(" ".join),
    max_size=4,
)


def tokenizer(name):
    """The tokenizer as its files describe it: byte-level ones put no space in front."""
    return tiny.tokenizer_of(name) if name in ("roberta", "gpt2") else separating(name)


def encode(name, texts, **options):
    ids = [f"dev-{i}" for i in range(len(texts))]
    made = tokenizer(name) if isinstance(name, str) else name
    return encode_texts(made, ids, texts, **options)


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=25)
@given(texts=TEXTS, room=st.integers(1, 30) | st.just(10_000))
def test_windows_hold_every_subword_and_the_mean_counts_it_once(name, texts, room):
    specials = learn_specials(tokenizer(name))
    split = encode(name, texts, max_length=room + len(specials))
    for i, text in enumerate(texts):
        whole = tokenizer(name)(text, add_special_tokens=False)["input_ids"]
        windows = windows_of(split, i)
        expected = tokenizer(name)(text)["input_ids"]
        if len(whole) <= room:
            assert windows == ([expected] if expected else [])
        inner = [window[len(specials.prefix) : len(window) - len(specials.suffix)]
                 for window in windows]  # fmt: skip
        assert all(0 < len(window) <= room for window in inner) or not whole
        place = slice(split.example_tokens[i], split.example_tokens[i + 1])
        averaged = np.ones(len(split.subwords), bool) if split.averaged is None else split.averaged
        assert split.subwords[place][averaged[place]].tolist() == (expected if inner else [])
    if room == 10_000:
        assert split.averaged is None and split.token_types is None
        assert split.counts["words"] == split.counts["truncated_examples"] == 0
        assert split.rows["cls"].tolist() == [1] * len(texts)
        assert split.rows["words"].tolist() == [0] * len(texts)


def test_a_word_lies_whole_in_a_window():
    text = " ".join(tiny.SENTENCES)
    split = encode("bert", [text], max_length=20)
    owners = split.word_map[1:-1]
    for w in range(split.counts["windows"]):
        inner = slice(split.window_bounds[w] + 1, split.window_bounds[w + 1] - 1)
        for word in np.unique(split.word_map[inner]):
            size = len(set(np.flatnonzero(split.word_map[inner] == word)))
            whole = tokenizer("bert")(text).word_ids().count(word)
            assert size == whole
    assert len(set(owners)) - (-1 in owners) == max(tokenizer("bert")(text).word_ids()[1:-1]) + 1


def one_word_tokenizer():
    """Like Llama 2's: it does not split at spaces, so that a text is one word."""
    pieces = tiny._unigram(300, ["<unk>", "<s>", "</s>"])
    inner = Tokenizer(models.Unigram(pieces, unk_id=0))
    inner.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    inner.decoder = decoders.Metaspace()
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", bos_token="<s>")


def test_a_tokenizer_that_knows_no_words_is_cut_at_spaces():
    made = one_word_tokenizer()
    text = " ".join(tiny.SENTENCES) + " " + "x" * 60
    found = made(text, add_special_tokens=False)
    assert set(found.word_ids()) == {0}
    split = encode(made, [text], max_length=17)
    kept = split.subwords[split.averaged].tolist()
    assert kept == [made.bos_token_id, *found["input_ids"]]
    starts = split.subwords[split.window_bounds[:-1] + 1]
    words = [made.convert_ids_to_tokens(int(i)) for i in starts]
    assert sum(word.startswith("\u2581") for word in words) > len(words) / 2
    assert split.counts["truncated_words"] == 0


def test_truncate_counts_and_error_refuses():
    texts = ["EU rejects", "call " * 30, "call " * 20]
    cut = encode("bert", texts, max_length=12, overlong="truncate")
    assert cut.counts["windows"] == 3 and cut.counts["truncated_examples"] == 2
    assert cut.window_lengths.max() <= 12 and cut.averaged is None
    with pytest.raises(DataError, match=r"example dev-1 has \d+ subwords .* limit of 12 \(1 more"):
        encode("bert", texts, max_length=12, overlong="error")


def test_what_cannot_be_read():
    with pytest.raises(DataError, match=r"example dev-1: character 4 \('\\ud800'\) is not valid"):
        encode("bert", ["fine", "bad\ud800"], max_length=12)
    with pytest.raises(OptionError, match="leaves no room for text beside the tokenizer's 2"):
        encode("bert", ["fine"], max_length=2)


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
    chosen = separating(name)
    specials = learn_specials(chosen)
    assert chosen.convert_ids_to_tokens(specials.prefix) == prefix
    assert chosen.convert_ids_to_tokens(specials.suffix) == suffix
    assert len(specials) == len(prefix) + len(suffix)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_separated_words_pass(name):
    check_word_separation(separating(name))


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
    found = tokenize(separating("bert"), ["dev-0"], [["EU", "", "\u200b", "\x07", "EU"]])
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
        tokenize(separating("bert"), ["train-0", "train-1"], [["fine"], ["so", "\ud83d"]])


@settings(max_examples=30)
@given(lengths=st.lists(st.integers(0, 40), max_size=30), most=st.integers(1, 50))
def test_portions_hold_every_text_once_and_are_bounded(lengths, most):
    texts = ["x" * length for length in lengths]
    inner = Mock(spec=Tokenizer)
    inner.encode_batch.side_effect = lambda given, **options: given
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts_of_data, "_CALL", most)
        assert list(encode_portions(inner, texts, texts)) == texts
    parts = [call.args[0] for call in inner.encode_batch.call_args_list]
    assert [text for part in parts for text in part] == texts
    assert all(sum(map(len, part)) < most + 40 for part in parts)
