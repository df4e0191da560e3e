"""Blocks and masks for language modelling, compared with a literal reading of the rules."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from probekit.data.predicted import encode_predicted, learn_mask_vocabulary
from probekit.data.texts import learn_specials
from probekit.errors import BackboneError, OptionError
from tests import tiny
from tests.data.samples import AWKWARD, TOKENIZERS, tokenizer, windows_of

MASKED = ["bert", "roberta", "deberta-v2"]
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(tiny.SENTENCES),
        st.sampled_from(AWKWARD),
        st.lists(st.sampled_from(AWKWARD), max_size=20).map(" ".join),
        st.sampled_from(tiny.SENTENCES).map(lambda text: f"{text} " * 5),
    ),
    max_size=4,
)
LONG = " ".join(tiny.SENTENCES) * 60


def _encode(name, texts, ids=None, **options):
    ids = [f"test-{i}" for i in range(len(texts))] if ids is None else ids
    split = encode_predicted(tokenizer(name), ids, texts, **options)
    return split, split.targets


def _content(name, text):
    return tokenizer(name)(text, add_special_tokens=False)["input_ids"]


def _rows(split, targets, example):
    """Return (block of the example, position in it, target) of each row of an example."""
    part = slice(split.example_words[example], split.example_words[example + 1])
    block = split.word_places.window[part] - split.example_windows[example]
    assert np.array_equal(split.word_places.first[part], split.word_places.last[part])
    columns = (block, split.word_places.first[part], targets[part])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _check_word_map(split):
    expected = np.full(len(split.subwords), -1)
    rows = np.arange(len(split.word_places.window))
    owner = np.searchsorted(split.example_words, rows, side="right") - 1
    expected[split.window_bounds[split.word_places.window] + split.word_places.first] = (
        rows - split.example_words[owner]
    )
    assert np.array_equal(split.word_map, expected)
    assert split.valid.all()


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=15)
@given(texts=TEXTS, room=st.integers(2, 40), every=st.integers(1, 6))
def test_next_follows_the_rules(name, texts, room, every):
    specials = learn_specials(tokenizer(name))
    limit = room + len(specials)
    split, targets = _encode(name, texts, max_length=limit, form="next", every=every)
    assert targets.dtype == np.int32 and len(targets) == len(split.word_places.window)
    for i, text in enumerate(texts):
        content = _content(name, text)
        blocks = [content[at : at + room] for at in range(0, len(content), room)]
        around = [[*specials.prefix, *block, *specials.suffix] for block in blocks]
        assert windows_of(split, i) == around
        assert _rows(split, targets, i) == [
            (number, len(specials.prefix) + at, block[at + 1])
            for number, block in enumerate(blocks)
            for at in range(every - 1, len(block) - 1, every)
        ]
    _check_word_map(split)


@pytest.mark.parametrize("name", MASKED)
@settings(max_examples=20)
@given(
    texts=TEXTS, room=st.integers(1, 40), passes=st.integers(1, 3),
    rate=st.sampled_from([0.05, 0.15, 0.5, 1.0]),
)  # fmt: skip
def test_masked_follows_the_rules(name, texts, room, passes, rate):
    specials = learn_specials(tokenizer(name))
    never = set(tokenizer(name).all_special_ids)
    limit = room + len(specials)
    options = {"max_length": limit, "form": "masked", "passes": passes, "rate": rate}
    split, targets = _encode(name, texts, **options)
    assert len(split.ids) == passes * len(texts)
    for i, name_of in enumerate(split.ids):
        text = i // passes
        suffix = f"#{i % passes}" if passes > 1 else ""
        assert name_of == f"test-{text}{suffix}"
        content = _content(name, texts[text])
        blocks = [content[at : at + room] for at in range(0, len(content), room)]
        windows, rows = windows_of(split, i), _rows(split, targets, i)
        assert len(windows) == len(blocks)
        for number, (window, block) in enumerate(zip(windows, blocks, strict=True)):
            original = [*specials.prefix, *block, *specials.suffix]
            mine = {place: target for owner, place, target in rows if owner == number}
            ordinary = sum(token not in never for token in block)
            assert len(mine) == (max(1, int(rate * ordinary + 0.5)) if ordinary else 0)
            for place, (seen, token) in enumerate(zip(window, original, strict=True)):
                if place in mine:
                    assert mine[place] == token and token not in never
                    assert seen == tokenizer(name).mask_token_id or seen not in never
                else:
                    assert seen == token
        assert rows == sorted(rows)
    _check_word_map(split)


def test_eighty_ten_ten():
    split, targets = _encode("bert", [LONG], max_length=102, form="masked", passes=20)
    mask = tokenizer("bert").mask_token_id
    seen = split.subwords[split.window_bounds[split.word_places.window] + split.word_places.first]
    n = len(targets)
    content = len(split.subwords) - 2 * len(split.window_lengths)
    assert n / content == pytest.approx(0.15, abs=0.002)
    vocabulary = learn_mask_vocabulary(tokenizer("bert")).ordinary
    random = (seen != mask) & (seen != targets)
    kept = seen == targets
    # a random subword is the original by chance in 1 of len(vocabulary) draws
    chance = 0.1 / len(vocabulary)
    for share, expected in (
        ((seen == mask).mean(), 0.8),
        (random.mean(), 0.1 - chance),
        (kept.mean(), 0.1 + chance),
    ):
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / n)
    drawn = seen[random]
    assert np.isin(drawn, vocabulary).all()
    assert len(set(drawn.tolist())) > 0.9 * len(vocabulary)  # all over the vocabulary
    counts = np.bincount(np.searchsorted(vocabulary, drawn), minlength=len(vocabulary))
    even = drawn.size / len(vocabulary)
    statistic = ((counts - even) ** 2 / even).sum()  # chi-square: mean V - 1, variance 2 (V - 1)
    assert abs(statistic - len(vocabulary)) < 5 * np.sqrt(2 * len(vocabulary))


def test_every_position_is_masked_as_often():
    split, _ = _encode("bert", [LONG], max_length=42, form="masked", passes=20)
    whole = split.window_lengths[split.word_places.window] == 42
    counts = np.bincount(split.word_places.first[whole], minlength=42)[1:41]
    blocks = int((split.window_lengths == 42).sum())
    spread = np.sqrt(blocks * 0.15 * 0.85)
    assert np.abs(counts - 0.15 * blocks).max() < 4.5 * spread


def _by_example(split, targets):
    return {
        name: (windows_of(split, i), _rows(split, targets, i)) for i, name in enumerate(split.ids)
    }


@settings(max_examples=8)
@given(order=st.permutations(range(5)), limit=st.integers(1, 5))
def test_masks_depend_on_seed_id_and_pass_alone(order, limit):
    texts = [*tiny.SENTENCES[:4], LONG[:2000]]
    options = {"max_length": 30, "form": "masked", "seed": 7}
    every = _by_example(*_encode("bert", texts, passes=3, **options))
    chosen = order[:limit]
    ids = [f"test-{i}" for i in chosen]
    some = _by_example(*_encode("bert", [texts[i] for i in chosen], ids, passes=2, **options))
    assert some == {name: every[name] for name in some}
    alone = _by_example(*_encode("bert", texts, **options))
    assert alone == {name: every[f"{name}#0"] for name in alone}


def test_another_seed_id_or_pass_gives_other_masks():
    options = {"max_length": 200, "form": "masked"}

    def rows(ids, seed=0, passes=1):
        split, _ = _encode("bert", [LONG], ids=ids, seed=seed, passes=passes, **options)
        return split.word_places.first.tolist()

    first = rows(["a"])
    assert rows(["a"]) == first
    assert rows(["b"]) != first
    assert rows(["a"], seed=1) != first
    both = rows(["a"], passes=2)
    assert both[: len(first)] == first and both[len(first) :] != first


def test_special_tokens_in_the_text_are_left_alone():
    text = "EU [MASK] call [UNK] [SEP] lamb"
    options = {"max_length": 64, "form": "masked", "rate": 1.0, "passes": 50}
    split, targets = _encode("bert", [text], **options)
    never = set(tokenizer("bert").all_special_ids)
    ordinary = [token for token in _content("bert", text) if token not in never]
    assert len(ordinary) == len(_content("bert", text)) - 3
    assert targets.tolist() == ordinary * 50
    untouched = split.subwords[split.word_map < 0].reshape(50, -1)
    assert (untouched == untouched[0]).all()
    seen = split.subwords[split.word_map >= 0]
    assert never.intersection(seen.tolist()) == {tokenizer("bert").mask_token_id}


def _sparse_tokenizer():
    """A vocabulary of few tokens with ids far apart."""
    ids = {"[UNK]": 0, "[MASK]": 5, "a": 1_000, "b": 1_000_000, "c": 3_000_000}
    inner = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="[UNK]", mask_token="[MASK]", name_or_path="sparse"
    )


def test_huge_ids_with_holes_between_them():
    options = {"max_length": 50, "form": "masked", "passes": 30}
    split = encode_predicted(_sparse_tokenizer(), ["x"], ["a b c ab " * 50], **options)
    assert set(split.targets.tolist()) == {1_000, 1_000_000, 3_000_000}
    assert set(split.subwords.tolist()) == {0, 5, 1_000, 1_000_000, 3_000_000}


@pytest.mark.parametrize(("form", "length"), [("masked", 2), ("next", 3)])
def test_what_cannot_be_read(form, length):
    message = f"--max-length {length} .* at least {length + 1}"
    with pytest.raises(OptionError, match=message):
        _encode("bert", ["EU"], form=form, max_length=length)
    with pytest.raises(BackboneError, match="has no mask token"):
        _encode("gpt2", ["EU"], max_length=9, form="masked")
