"""Texts that occur twice, or in one another, against comparing every two of them."""

import itertools
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.errors import OptionError
from probekit.features.duplicates import Wording, count_copies, joined, left_of_train, normalised
from probekit.features.sentence_groups import (
    LEAST_WORDS,
    group_sizes,
    number_groups,
    phrase_groups,
    phrases,
)

SAMPLE = ("a b", "A  b.", "a b c", "c", "!", "?")
TEXTS = st.lists(st.tuples(st.sampled_from(SAMPLE), st.none()), max_size=8)
PAIRS = st.lists(st.tuples(st.sampled_from(SAMPLE), st.sampled_from(SAMPLE)), max_size=8)
EITHER = st.one_of(st.tuples(TEXTS, TEXTS), st.tuples(PAIRS, PAIRS))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's a Film.", "it s a film"),
        ("it 's a film", "it s a film"),  # as a corpus of words has it
        ("``So ,'' he said", "so he said"),
        ("  two\t\nblanks\u00a0here ", "two blanks here"),
        ("STRASSE Straße", "strasse strasse"),
        (
            "\ufb01ne \uff57\uff49\uff44\uff45 \u00bd",
            "fine wide 1 \u2044 2",
        ),  # one half is a fraction
        ("caf\u0065\u0301 CAFÉ", "café café"),  # an accent by itself, and with its letter
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("good😀bad", "good 😀 bad"),
        ("$5 + 2", "$ 5 + 2"),
        ("हिन्दी में।", "हिन्दी में"),  # marks that are no letters stay
        ("「東京」へ", "東京 へ"),
        ("...", "..."),
        (" ! ?\n", "! ?"),
        ("", ""),
    ],
)
def test_texts_normalised(text, expected):
    assert normalised(text) == expected


@given(st.text(alphabet=string.printable))
def test_normalising_again_changes_nothing(text):
    assert normalised(normalised(text)) == normalised(text)


def wording(example):
    return Wording.of((), *example)


def naive(own, others, least):
    """The counts of `count_copies`, every example compared with every other."""
    counts = {"texts": len(own)}
    for name in ("exact", "normalised"):
        pairs = [[getattr(one, name) == getattr(other, name) for other in others] for one in own]
        counts[name] = sum(sum(same) >= least for same in pairs)
    if any(len(one.exact) == 2 for one in own):
        counts["sharing"] = sum(
            any(sum(text in other.normalised for other in others) >= least for text in one[1])
            for one in own
        )
    return counts


@given(EITHER)
def test_counts_are_those_of_comparing_every_two(splits):
    dev, train = ([wording(one) for one in own] for own in splits)
    assert count_copies(dev, train) == naive(dev, train, 1)
    assert count_copies(train, train, again=True) == naive(train, train, 2)


@given(EITHER)
def test_what_is_left_of_train_shares_no_text(splits):
    dev, train = ([wording(one) for one in own] for own in splits)
    judged = [text for one in dev for text in one.normalised]
    kept = [n for n, own in enumerate(train) if not any(text in judged for text in own.normalised)]
    if kept:
        assert left_of_train(train, {"dev": dev[::2], "test": dev[1::2]}) == kept
    else:
        with pytest.raises(OptionError, match="leaves nothing of train"):
            left_of_train(train, {"dev": dev})


def test_words_are_joined_with_blanks():
    assert Wording.of(("A", "film", "."), None, None) == (("A film .",), ("a film",))
    assert Wording.of((), "A film", "B!") == (("A film", "B!"), ("a film", "b"))


def partition(numbers):
    """Groups as sets of places, whatever their numbers."""
    found = {}
    for place, number in enumerate(numbers):
        found.setdefault(number, set()).add(place)
    return {frozenset(group) for group in found.values()}


def merged(keys):
    """The groups of `joined`: any two that have a key in common are merged, until none do."""
    groups = [({n}, {*own}) for n, own in enumerate(keys)]
    while found := [
        (one, other)
        for one, other in itertools.combinations(range(len(groups)), 2)
        if groups[one][1] & groups[other][1]
    ]:
        one, other = found[0]
        places, own = groups.pop(other)
        groups[one] = groups[one][0] | places, groups[one][1] | own
    return {frozenset(places) for places, _ in groups}


@given(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=10))
def test_examples_with_a_key_in_common_are_joined(keys):
    assert partition(joined(keys).tolist()) == merged(keys)


@given(PAIRS)
def test_groups_of_equal_texts_keep_other_groups_whole(pairs):
    texts = [wording(one) for one in pairs]
    assert partition(number_groups(None, texts).tolist()) == merged([one[1] for one in texts])
    names = [f"group {n // 3}" for n in range(len(texts))]
    keys = [(*one[1], (name,)) for one, name in zip(texts, names, strict=True)]
    assert partition(number_groups(names, texts).tolist()) == merged(keys)


def test_groups_are_numbered_by_their_names_and_may_be_none():
    assert number_groups(["b", "a", "b"]).tolist() == [1, 0, 1]
    assert number_groups(None) is None


def test_sizes_of_groups():
    sizes = group_sizes(np.array([4, 7, 4, 4, 9, 9]))
    assert sizes == {"groups": 3, "largest_group": 3, "in_groups": 5}
    none = group_sizes(np.zeros(0, np.int64))
    assert none == {"groups": 0, "largest_group": 0, "in_groups": 0}


TEXTS = st.lists(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=9).map(" ".join), unique=True, max_size=25
)


def holds(one, other):
    """Whether a text is another one, or its words have four or more of that one in a row."""
    return one == other or (other.count(" ") + 1 >= LEAST_WORDS and f" {other} " in f" {one} ")


@given(TEXTS)
def test_phrases_are_those_of_looking_everywhere(texts):
    found = {text: {*held} for text, held in phrases({*texts})}
    assert found == {one: {other for other in texts if holds(one, other)} for one in texts}


@given(TEXTS)
def test_groups_are_the_connected_components(texts):
    names = groups_of(*texts)["train"]
    near = {
        one: {other for other in texts if holds(one, other) or holds(other, one)} for one in texts
    }
    for one, name in zip(texts, names, strict=True):
        reached: set[str] = set()
        border = {one}
        while border:
            reached |= border
            border = {other for text in border for other in near[text]} - reached
        assert {text for text, other in zip(texts, names, strict=True) if other == name} == reached
        assert name == min(reached, key=lambda text: (len(text), text))


def groups_of(*texts, **others):
    splits = {"train": texts, **others}
    return phrase_groups(
        {split: [Wording.of((), one, None) for one in own] for split, own in splits.items()}
    )


def test_a_group_is_called_by_its_shortest_text():
    found = groups_of(
        "It is one of the best films.", "one of the best", "One of the best films", "the best films"
    )
    assert found["train"] == ("one of the best",) * 3 + ("the best films",)


def test_groups_go_over_splits_and_pairs():
    found = groups_of("x a b c d", "e", dev=["a b c d", "f"])
    assert found == {"train": ("a b c d", "e"), "dev": ("a b c d", "f")}
    pairs = [("p", "a b c d"), ("q", "a b c d e"), ("q", "r"), ("s", "t")]
    groups = phrase_groups({"train": [Wording.of((), *pair) for pair in pairs]})["train"]
    assert groups == ("p", "p", "p", "s")
