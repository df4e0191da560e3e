"""Which model and which text are meant, from extraction to prediction: no other of the name."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import probekit
from probekit.errors import MissingFileError
from probekit.extraction.maintenance import list_cache, select_folders
from probekit.store import Entry
from tests import tiny
from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused, run
from tests.extraction.corpus import write_corpus
from tests.saved_heads import changed_records

TRAIN = ("--head", "last", "--epochs", "2")
TEXT = "ner"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Texts, two checkpoints in folders of one name, and the first one's entries."""
    root = tmp_path_factory.mktemp("built")
    write_corpus(root / TEXT, sentences=8)
    for seed in (1, 2):
        tiny.build("bert", root / f"run{seed}" / "checkpoint-100", seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        done("extract", "run1/checkpoint-100", TEXT, *FLOAT32)
    return root


@pytest.fixture
def runs(built, here):
    """The same in a folder that the test may change."""
    return shutil.copytree(built, here, dirs_exist_ok=True)


def records():
    with open("runs.jsonl") as lines:
        return [json.loads(line) for line in lines]


def test_a_model_of_the_same_folder_name_does_not_stand_in(runs):
    message = refused("train", "run2/checkpoint-100", TEXT, *TRAIN)
    assert "made with a different model than the one that is at run2/checkpoint-100 now" in message
    assert "Type: probekit extract run2/checkpoint-100" in message
    assert "no cache entry matches" in refused("cache", "rm", "-y", "run2/checkpoint-100", TEXT)

    said = "checkpoint-100 is also the name of another model in cache; tell them apart"
    assert done("extract", "run2/checkpoint-100", TEXT, *FLOAT32).err.count(said) == 1
    for one in ("run1", "run2"):
        options = ("--out", "runs.jsonl", "--save", f"{one}/head")
        done("train", f"{one}/checkpoint-100", TEXT, *TRAIN, *options)
    first, second = records()
    assert first["entry"] != second["entry"] and first["scores"] != second["scores"]
    for one in ("run1", "run2"):
        about = json.loads((runs / one / "head" / "config.json").read_text())
        assert about["model"]["name"] == f"{one}/checkpoint-100"


@pytest.mark.parametrize("left", ["config.json", "model.safetensors"])
def test_a_folder_that_tells_no_model_is_none_of_its_name(runs, left):
    """Such as that of a PEFT checkpoint, or one whose weights are still to come."""
    Path("run3/checkpoint-100").mkdir(parents=True)
    shutil.copy(f"run1/checkpoint-100/{left}", "run3/checkpoint-100")
    told = "run3/checkpoint-100 has no config.json or no weights"
    outcome = run("train", "run3/checkpoint-100", TEXT, *TRAIN)
    assert outcome.code == 1 and told in outcome.err
    outcome = run("cache", "rm", "-y", "run3/checkpoint-100")
    assert outcome.code == 1 and "no longer says which model it is" in outcome.err
    Path("run1/checkpoint-100/model.safetensors").unlink()  # to save room, once it is extracted
    for model in ("run1/checkpoint-100", "checkpoint-100"):
        done("train", model, TEXT, *TRAIN, "--out", "runs.jsonl")
    assert len(records()) == 1


def test_a_copy_is_the_same_model_whatever_its_folder_is_called(runs):
    shutil.copytree("run1/checkpoint-100", "elsewhere/best")
    assert "complete already" in done("extract", "elsewhere/best", TEXT, *FLOAT32).err
    done("train", "elsewhere/best", TEXT, *TRAIN, "--out", "runs.jsonl")
    assert len(records()) == 1
    shutil.rmtree("run1")  # the name alone, of a model that has gone
    done("train", "checkpoint-100", TEXT, *TRAIN, "--out", "runs.jsonl")
    assert len(records()) == 1


def test_an_edited_copy_is_another_model_everywhere(runs):
    for name in ("near", "far"):
        tiny.build("bert", runs / name)
    config = json.loads((runs / "far" / "config.json").read_text())
    (runs / "far" / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))
    for name in ("near", "far"):
        done("extract", name, TEXT, *FLOAT32)
        done("train", name, TEXT, *TRAIN, "--out", "runs.jsonl", "--save", f"{name}-head")
    assert len({record["key"] for record in records()}) == 2
    message = refused("predict", "near-head", "-", "--model", "far", text="Maria left Paris")
    assert "hidden_act" in message and "Give the right model with --model" in message
    said = run("cache", "verify", "near", TEXT, "train", "--model", "far", "--rows", "3")
    assert said.code == 1 and "hidden_act" in said.err and said.out == ""


def test_data_that_was_renamed_or_moved_is_known_again(runs):
    model = "run1/checkpoint-100"
    (runs / "moved").mkdir()
    shutil.move(TEXT, runs / "moved" / "people")
    assert "complete already" in done("extract", model, "moved/people", *FLOAT32).err
    done("train", model, "moved/people", *TRAIN, "--out", "runs.jsonl")
    shutil.copytree(runs / "moved" / "people", runs / "again")
    done("train", model, "again", *TRAIN, "--out", "runs.jsonl")
    shutil.move("cache", runs / "moved" / "cache")
    shutil.rmtree("run1")
    cache = ("--cache", "moved/cache")
    done("train", "checkpoint-100", "moved/people", *TRAIN, *cache, "--out", "runs.jsonl")
    assert len(records()) == 1
    shutil.rmtree(runs / "moved" / "people")
    (row, *_) = done("cache", "ls", *cache, "--json").rows
    assert row["task"].startswith("ner-")
    (entry,) = (runs / "moved" / "cache").glob("*/*/train-????????")
    for named in (("checkpoint-100", row["task"], *cache), (entry,)):
        done("train", *named, *TRAIN, "--out", "runs.jsonl")
    assert len(records()) == 1
    # The text of another file of the same name is another one.
    other = write_corpus(runs / "ner", sentences=5)
    assert "This text of" in refused("train", "checkpoint-100", other, *TRAIN, *cache)


def test_a_name_tells_models_of_one_folder_name_apart(runs):
    done("extract", "run2/checkpoint-100", TEXT, *FLOAT32, "--name", "second")
    assert {row["model"] for row in done("cache", "ls", "--json").rows} == {
        "checkpoint-100",
        "second",
    }
    for model in ("run2/checkpoint-100", "second"):
        done("train", model, TEXT, *TRAIN, "--out", "runs.jsonl")
    (record,) = records()
    assert record["model"] == "second"
    message = refused("extract", "run2/checkpoint-100", TEXT, *FLOAT32, "--name", "third")
    assert "has this entry already under the name second" in message


def test_own_data_is_removed_by_its_text_and_not_by_its_name(runs):
    model = "run1/checkpoint-100"
    other = write_corpus(runs / "other" / "ner", sentences=5)
    assert "no cache entry matches" in refused("cache", "rm", "-y", model, other)
    assert len(done("cache", "ls", "--json").rows) == 2
    renamed = shutil.copytree(TEXT, runs / "people")
    assert len(done("cache", "path", model, renamed).out.splitlines()) == 2
    done("cache", "rm", "-y", model, renamed)
    assert done("cache", "ls", "--json").rows == []


def test_a_task_by_name_is_not_taken_for_own_data_of_the_same_text(runs, here):
    done("extract", "run1/checkpoint-100", "demo-ner", *FLOAT32, "--limit", "6")
    examples = done("cache", "path", "run1/checkpoint-100", "demo-ner", "train").out.strip()
    words = Entry.open(here / examples).examples
    lines = ("\n".join(f"{word}\tO" for word in words.words(i)) for i in range(len(words)))
    (here / "copied.conll").write_text("\n\n".join(lines) + "\n")
    done("extract", "run1/checkpoint-100", "copied.conll", *FLOAT32)
    done("cache", "rm", "-y", "run1/checkpoint-100", "demo-ner")
    done("extract", "run1/checkpoint-100", "copied.conll", *FLOAT32)
    done("extract", "run1/checkpoint-100", "demo-ner", *FLOAT32, "--limit", "6")
    done("train", "run1/checkpoint-100", "demo-ner", *TRAIN, "--hold-out", "0.3")


ROWS = [("Maria left", "a"), ("Paris left", "b"), ("Maria came", "a"), ("Paris came", "b")]
TRAINED = ("--epochs", "2", "--predictions")


def write(folder, test):
    """Write a data set with given test texts; their labels are always the same."""
    folder.mkdir()
    for split, rows in (("train", ROWS), ("dev", ROWS), ("test", zip(test, "ab", strict=True))):
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
