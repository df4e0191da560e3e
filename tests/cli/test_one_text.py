"""Data of one's own is told apart by its texts, and one text has one name."""

import json

import pytest

from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused
from tests.saved_heads import changed_records

TRAIN = [("Maria left", "a"), ("Paris left", "b"), ("Maria came", "a"), ("Paris came", "b")]
TRAINED = ("--epochs", "2", "--predictions")


def write(folder, test):
    """Write a data set with given test texts; their labels are always the same."""
    folder.mkdir()
    for split, rows in (("train", TRAIN), ("dev", TRAIN), ("test", zip(test, "ab", strict=True))):
        lines = ["text\tclass", *map("\t".join, rows)]
        (folder / f"{split}.tsv").write_text("\n".join(lines))


@pytest.fixture
def trained(bert, here):
    """Train on a data set in a cache of its own, with one seed."""

    def train(name, test, head="last"):
        write(here / name, test)
        own = ("--text", "text", "--label", "class", "--kind", "sentence", "--cache", f"of_{name}")
        done("extract", bert, name, *own, *FLOAT32)
        out = here / f"{name}.jsonl"
        done("train", bert, name, *own, *TRAINED, "--head", head, "--out", out)
        return out

    return train


def test_they_are_told_apart_where_they_share_a_name(trained):
    one, other = trained("plain", ["Maria", "Paris"]), trained("typos", ["Mraia", "Prais"])
    record = json.loads(one.read_text())
    changed_records(other, task=record["task"])  # as of a folder of that name elsewhere
    rows = done("table", one, other, "--style", "jsonl").rows
    one_text, other_text = (row["options"]["texts"][:8] for row in rows)
    assert one_text != other_text
    shown = done("table", one, other).out
    assert one_text in shown and other_text in shown
    message = refused("compare", one, other, "--split", "test")
    assert message == (
        f"the test texts of {one} and {other} are not the same, though their task is called "
        f"{record['task']} in both; runs are compared on the same sentences."
    )


def test_one_text_under_two_names_is_one_task(trained):
    files = trained("plain", ["Maria", "Paris"]), trained("copied", ["Maria", "Paris"], "mean")
    rows = done("table", *files, "--style", "jsonl").rows
    assert [row["options"]["head"] for row in rows] == ["last", "mean"]
    assert len({row["options"]["task"] for row in rows}) == 1
    (found,) = done("compare", *files, "--json").rows
    assert found["differing"] == {} and (found["a"], found["b"]) == ("last", "mean")
