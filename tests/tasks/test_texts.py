"""Examples of text: fingerprints, kinds of columns, and what a split refuses."""

from pathlib import Path

import pytest

from probekit.base.fingerprint import digest_stream
from probekit.base.kinds import KindName
from probekit.errors import DataError
from probekit.tasks import Example, Split
from probekit.tasks.assemble import assemble
from probekit.tasks.sentences import Sentence, Sentences, plain_text
from probekit.tasks.task import Task


def split_of(*examples: Example) -> Split:
    return Split(task="toy", name="train", examples=examples, labels={}, origin="made up")


def test_word_examples_keep_the_fingerprint_of_entries_written_before() -> None:
    split = split_of(Example("a", ("x", "yz")), Example("b", ("w",)))
    parts = [b"a", b"2", b"x", b"yz", b"b", b"1", b"w"]
    assert split.text_fingerprint() == digest_stream(parts)


def test_texts_that_differ_have_different_fingerprints() -> None:
    different = [
        Example("a", ("x",)), Example("a", text="x"), Example("b", text="x"),
        Example("a", text="x", text_pair=""), Example("a", text="x", text_pair="y"),
        Example("a", text="xy"), Example("a", text="y", text_pair="x"), Example("a", ("text", "x")),
    ]  # fmt: skip
    assert len({split_of(example).text_fingerprint() for example in different}) == len(different)
    one, two = Example("a", text="x"), Example("b", text="y")
    joined = Example("a", text="x", text_pair="b")
    assert split_of(one, two).text_fingerprint() != split_of(joined).text_fingerprint()


def found(*sentences: Sentence) -> Sentences:
    return Sentences(sentences=sentences, where="F", origin="F")


@pytest.mark.parametrize(
    ("kind", "sentence", "message"),
    [
        ("sentence", plain_text((" \t",), {}, 3), r"F, line 3: an example without text"),
        ("pair", plain_text(("", " "), {}, 3), r"F, line 3: an example without text"),
        ("sentence", Sentence(("a",), {}, (3,)), r"line 3: an example without text"),
        ("tagging", plain_text(("a",), {}, 3), r"line 3: an example without words"),
        ("pair", plain_text(("a",), {}, 3), r"kind pair takes 2 text\(s\).*found 1"),
        ("sentence", plain_text(("a", "b"), {}, 3), r"kind sentence takes 1 text\(s\).*found 2"),
        ("sentence", plain_text(("a",), {"y": ""}, 3), r"line 3: the label in column 'y' is empty"),
        ("regression", plain_text(("a",), {"y": "inf"}, 3), r"line 3: 'inf' in column 'y' is no"),
        ("regression", plain_text(("a",), {"y": "1e999"}, 3), r"'1e999' in column 'y' is no"),
        ("sentence", Sentence((), {"y": ("1", "2")}, (3,), None, "a"), r"2 labels in column 'y'"),
        ("sentence", Sentence((), {"y": ()}, (3,), None, "a"), r"0 labels in column 'y'"),
    ],
)
def test_refused(kind: KindName, sentence: Sentence, message: str) -> None:
    with pytest.raises(DataError, match=message):
        assemble("toy", "train", found(sentence), kind=kind, kinds={"y": kind})


def test_a_column_of_some_examples_names_the_first_without() -> None:
    rows = found(plain_text(("a",), {"y": "1"}, 1), plain_text(("b",), {}, 2))
    with pytest.raises(DataError, match=r"F, line 2: no labels in column 'y'.*all of them or none"):
        assemble("toy", "train", rows, kind="sentence", kinds={"y": "sentence"})


def test_columns_of_several_kinds(tmp_path: Path) -> None:
    sentence = Sentence(("to", "rome"), {"slots": ("O", "B-city"), "intent": ("go",)}, (1, 1))
    task = Task(
        name="toy", metrics={"slots": "span-f1", "intent": "micro-f1"},
        kinds={"intent": "sentence"}, splits=("train",), corpus=lambda split, data: found(sentence),
    )  # fmt: skip
    assert task.kinds == {"slots": "tagging", "intent": "sentence"}
    assert task.read("train").labels == {"slots": (("O", "B-city"),), "intent": (("go",),)}


def test_a_regression_may_have_one_text_or_two() -> None:
    for texts in (("a",), ("a", "b")):
        rows = found(plain_text(texts, {"y": "3.800"}, 1))
        split = assemble("toy", "dev", rows, kind="regression", kinds={"y": "regression"})
        pair = texts[1] if len(texts) == 2 else None
        assert split.examples == (Example("dev-0", (), "a", pair),)
        assert split.labels == {"y": (("3.800",),)}
