"""Tags of spans in every scheme and form: recognised, turned into BIO, judged by seqeval."""

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU, IOB2, IOBES, IOE1, IOE2, Entities, auto_detect

from probekit.errors import DataError
from probekit.tasks.schemes import looks_like_tags, read_scheme
from tests.tasks.own_files import task_of, write

KINDS = ("PER", "LOC")
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


SINGLE_FIRST_INNER_LAST = {
    "IOB2": ("B", "B", "I", "I"), "IOE2": ("E", "I", "I", "E"), "IOBES": ("S", "B", "I", "E"),
    "BILOU": ("U", "B", "I", "L"), "BMES": ("S", "B", "M", "E"), "BMEWO": ("W", "B", "M", "E"),
}  # fmt: skip
JUDGES = {"IOB2": IOB2, "IOE2": IOE2, "IOBES": IOBES, "BILOU": BILOU}
sentences = st.lists(spans, min_size=1, max_size=5)


def write_scheme(entities: Spans, scheme: str) -> tuple[str, ...]:
    if scheme == "IOB1":
        return write_iob1(entities)
    single, first, inner, last = SINGLE_FIRST_INNER_LAST[scheme]
    tags: list[str] = []
    for kind, length in entities:
        marks = [single] if length == 1 else [first, *[inner] * (length - 2), last]
        tags += ["O"] * length if kind is None else [f"{mark}-{kind}" for mark in marks]
    return tuple(tags)


def has_span_and_gap(texts: list[Spans]) -> bool:
    kinds = {kind for entities in texts for kind, _ in entities}
    return None in kinds and len(kinds) > 1


@given(sentences.filter(has_span_and_gap))
@settings(max_examples=40)
def test_every_scheme_becomes_the_bio_of_the_same_spans(texts: list[Spans]) -> None:
    for scheme in (*SINGLE_FIRST_INNER_LAST, "IOB1"):
        tags = [write_scheme(entities, scheme) for entities in texts]
        reading = read_scheme(tags)
        assert reading is not None and (reading.n_broken == 0 or scheme == "IOB1")
        bio = [reading.to_bio(own) for own in tags]
        assert bio == [write_bio(entities) for entities in texts]
        if judge := JUDGES.get(scheme):
            judged = [
                {(one.tag, one.start, one.end - 1) for one in own}
                for own in Entities([list(own) for own in tags], judge).entities
            ]
            assert [set(get_entities(list(own))) for own in bio] == judged


@pytest.mark.parametrize("letters", ["BI", "BIES"])
@given(data=st.data())
@settings(max_examples=50)
def test_any_tags_keep_the_spans_that_seqeval_finds(letters: str, data: st.DataObject) -> None:
    """Broken spans as well: the lenient reading of conlleval, which scores them."""
    tag = st.sampled_from(["O", *(f"{mark}-{kind}" for mark in letters for kind in ("X", "Y"))])
    tags = [
        ["B-X", "O", *own] for own in data.draw(st.lists(st.lists(tag, max_size=8), max_size=4))
    ]
    reading = read_scheme(tags)
    if letters == "BI":
        assert reading is not None or not tags
    if reading is not None:
        for own in tags:
            assert get_entities(list(reading.to_bio(own))) == get_entities(own)


def test_ioe1_marks_an_end_where_two_touch() -> None:
    tags = [["I-X", "E-X", "I-X", "O", "I-Y"], ["O", "I-X", "I-Y", "E-Y", "I-Y"]]
    assert auto_detect([["I-X", "E-X"]]) is IOE2
    reading = read_scheme(tags)
    assert reading is not None and reading.scheme == "IOE"
    found = [reading.to_bio(own) for own in tags]
    assert found == [("B-X", "I-X", "B-X", "O", "B-Y"), ("O", "B-X", "B-Y", "I-Y", "B-Y")]
    judged = Entities([["I-X", "E-X", "I-X"]], IOE1).entities[0]
    assert [(one.start, one.end) for one in judged] == [(0, 2), (2, 3)]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B I O", "O B I O"), ("O I I O", "O B I O"), ("o b i o", "O B I O"),
        ("O S O B I E", "O B O B I I"), ("B M E S B E", "B I I B B I"),
        ("O B_PER I_PER", "O B-PER I-PER"), ("O b-per i-per", "O B-per I-per"),
        ("o b-per i-per", "O B-per I-per"), ("O B:PER I:PER", "O B-PER I-PER"),
        ("O B/PER I/PER", "O B-PER I-PER"), ("O PER-B PER-I", "O B-PER I-PER"),
        ("O PER_B PER_I LOC_S_B", "O B-PER I-PER B-LOC_S"),
        ("O per:b per:e loc:s", "O B-per I-per B-loc"),
        ("O U-LOC B-PER L-PER", "O B-LOC B-PER I-PER"), ("O S-LOC", "O B-LOC"),
        ("O B-B I-B", "O B-B I-B"), ("O B-I I-I", "O B-I I-I"),
    ],
)  # fmt: skip
def test_forms(tags: str, expected: str, tmp_path: Path) -> None:
    rows = "".join(f"word{n}\t{tag}\n" for n, tag in enumerate(tags.split()))
    task = task_of(write(tmp_path / "a.conll", rows))
    assert task.metrics == {"1": "span-f1"}
    assert task.read("train").labels == {"1": (tuple(expected.split()),)}


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("O NN I-PER", True), ("O S-B S-I", True), ("O B_X X_B", True), ("O E L", True),
        ("B_X I_Y X", True), ("NOUN VERB O", False), ("A B C", False), ("B M", False),
        ("I B", False), ("S V O", False), ("1 0", False),
    ],
)  # fmt: skip
def test_what_only_looks_like_tags_is_said(
    tags: str, said: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = "".join(f"word{n}\t{tag}\n" for n, tag in enumerate(tags.split()))
    task = task_of(write(tmp_path / "a.conll", rows))
    assert task.metrics == {"1": "accuracy"}
    assert ("look like span tags" in caplog.text) is said
    assert looks_like_tags(set(tags.split())) is said
    assert task.read("train").labels == {"1": (tuple(tags.split()),)}


def test_a_scheme_is_said_once_for_all_splits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for split in ("train", "dev", "test"):
        write(tmp_path / f"{split}.conll", "a I-ORG\nb I-ORG\nc O\n")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            task = task_of(tmp_path)
            for split in task.splits:
                assert task.read(split).labels == {"1": (("B-ORG", "I-ORG", "O"),)}
    (message,) = caplog.messages
    assert message.startswith(
        f"{tmp_path}: the tags of column '1' are IOB1; they are converted to BIO"
    )


def test_a_split_without_spans_is_one_of_any_scheme(tmp_path: Path) -> None:
    write(tmp_path / "train.conll", "a b-x\nb o\n")
    write(tmp_path / "dev.conll", "a o\nb o\n")
    assert task_of(tmp_path).read("dev").labels == {"1": (("O", "O"),)}


def test_broken_spans_are_counted_or_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = "a B-X\nb E-X\nc O\n\n"
    path = write(tmp_path / "a.conll", whole * 19 + "d B-X\ne O\n")
    labels = task_of(path).read("train").labels["1"]
    assert (labels[0], labels[-1]) == (("B-X", "I-X", "O"), ("B-X", "O"))
    assert "1 of 20 spans of column '1' do not follow IOBES" in caplog.text
    path = write(tmp_path / "b.conll", whole + "d B-X\ne O\n")
    with pytest.raises(DataError, match=r"b.conll, line 2: 'E-X' .*convert other schemes"):
        task_of(path).read("train")


def test_a_word_without_a_label_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "a B-X\nb _\nc E-X\nd O\n")
    assert task_of(path).read("train").labels == {"1": (("B-X", "", "I-X", "O"),)}
