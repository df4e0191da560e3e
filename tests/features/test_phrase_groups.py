"""Groups of phrases, against a reference that looks for every text in every other one."""

from hypothesis import given
from hypothesis import strategies as st

from probekit.features.duplicates import Wording
from probekit.features.sentence_groups import LEAST_WORDS, phrase_groups, phrases

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
