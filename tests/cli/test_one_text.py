"""Data of one's own is told apart by its texts, and one text has one name."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import probekit
from probekit.errors import MissingFileError
from probekit.extraction.maintenance import list_cache, select_folders
from probekit.store import Entry
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
        done("train", bert, name, *own[2:4], *own[6:], *TRAINED, "--head", head, "--out", out)
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


class PathLike:
    """A path that is none of pathlib's."""

    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return str(self.path)


@pytest.mark.parametrize("path", [Path, PathLike])
def test_a_path_is_a_path_to_every_function(path, bert, here):
    write(here / "conll", ["Maria", "Paris"])  # called as a task of probekit's own
    model, task, cache = path(os.path.relpath(bert, here)), path("conll"), path("cache")
    own = {"kind": "sentence", "text": "text", "label": "class", "cache": cache}
    train, _, _ = probekit.extract(model, task, **own)
    where = probekit.Location(cache=cache, entry=path(train.path), kind="sentence", text="text")
    opened = probekit.open_features(model, task, "class", location=where)
    assert opened.entries["train"].path == train.path
    spec = probekit.TrainSpec(model=model, task=task, label="class", head="last", l2=1.0)
    (record,) = probekit.sweep(spec, out=path("runs.jsonl"), location=where, save=path("saved"))
    assert record.task == opened.task.name == train.manifest.task
    assert probekit.load_records(path("runs.jsonl"))[0].key == record.key
    again = probekit.fit(
        head="last", model=model, task=task, location=where,
        options={"label": "class", "fit": "adam", "epochs": 1, "init_from": path("saved")},
    )  # fmt: skip
    assert again.scores
    assert probekit.geometry(model, task, location=where).rows == 4
    assert probekit.predict(path("saved"), ["Maria left"], model=model)[0] in ("a", "b")
    (here / "ud.conll").write_text("Maria\tO\nleft\tO\n")
    states, about = [np.zeros((2, 3, 8))], probekit.ImportOptions(n_blocks=2, layer_ids="0:3")
    imported = probekit.import_states(
        path("other"), path("ud.conll"), states, options=about, cache=cache
    )
    assert imported[0].manifest.model == "other"
    assert train.path in select_folders([model, task], cache)
    assert len(list_cache(cache)) == 4
    assert Entry.open(path(train.path)).manifest.key == train.manifest.key
    with pytest.raises(MissingFileError, match=r"^\./glue/rte: no such file"):
        probekit.extract(model, path("glue/rte"))
