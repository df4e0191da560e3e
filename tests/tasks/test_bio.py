"""IOB1 turned into BIO: the entities stay, their first tags change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from probekit.tasks.schemes import BIO_TAG, iob1_to_bio

KINDS = ("PER", "LOC")
any_tag = st.sampled_from(["O", *(f"{prefix}-{kind}" for kind in KINDS for prefix in "BI")])
# A sentence as its entities: (type or None for O, length).
spans = st.lists(st.tuples(st.sampled_from([None, *KINDS]), st.integers(1, 4)), max_size=8)
Spans = list[tuple[str | None, int]]


def write_bio(entities: Spans) -> tuple[str, ...]:
    """The tags of a sentence in BIO, from its entities."""
    tags: list[str] = []
    for kind, length in entities:
        tags += ["O"] * length if kind is None else [f"B-{kind}"] + [f"I-{kind}"] * (length - 1)
    return tuple(tags)


def write_iob1(entities: Spans) -> tuple[str, ...]:
    """The tags of a sentence in IOB1, from its entities: B- only between two of one type."""
    tags: list[str] = []
    before: str | None = None
    for kind, length in entities:
        first = "B" if kind == before else "I"
        if kind is None:
            tags += ["O"] * length
        else:
            tags += [f"{first}-{kind}"] + [f"I-{kind}"] * (length - 1)
        before = kind
    return tuple(tags)


@given(spans)
def test_iob1_becomes_the_bio_of_the_same_entities(entities: Spans) -> None:
    assert iob1_to_bio(write_iob1(entities)) == write_bio(entities)


@given(spans)
def test_bio_stays(entities: Spans) -> None:
    assert iob1_to_bio(write_bio(entities)) == write_bio(entities)


@given(st.lists(any_tag, max_size=12))
def test_any_tags_keep_their_entities(tags: list[str]) -> None:
    converted = iob1_to_bio(tags)
    assert get_entities(list(converted)) == get_entities(tags)
    assert iob1_to_bio(converted) == converted


@pytest.mark.parametrize("tag", ["O", "B-PER", "I-fromloc.city_name", "B-creative-work"])
def test_tags(tag: str) -> None:
    assert BIO_TAG.fullmatch(tag)


@pytest.mark.parametrize("tag", ["", "o", "B", "B-", "I-", "b-PER", "S-PER", "PER", "OO", "B_PER"])
def test_no_tags(tag: str) -> None:
    assert not BIO_TAG.fullmatch(tag)
