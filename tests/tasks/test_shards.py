"""Splits in several files, as the Hub has them, and what ``save_to_disk`` wrote."""

import gzip
import json
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probekit.errors import DataError
from tests.tasks.own_files import get_task, json_lines, task_of, train, words, write
from tests.tasks.test_user_texts import rows


def conll(folder: Path, *names: str) -> Path:
    """Write one sentence of one word, the file's name, into each file."""
    for name in names:
        write(folder / name, f"{Path(name).name} O\n")
    return folder


@pytest.mark.parametrize("below", ["", "data/"])
@pytest.mark.parametrize(
    "shards",
    [
        ["train-00000-of-00002.conll", "train-00001-of-00002.conll"],
        [
            "train-00000-of-00002-0123456789abcdef.conll",
            "train-00001-of-00002-fedcba9876543210.conll",
        ],
        [f"train-{n}.conll" for n in range(11)],
        ["train_1.conll", "train_2.conll"],
        ["train/0000.conll", "train/0001.conll"],
        ["train/part-0.conll", "train/part-1.conll"],
        ["train/all.conll"],
    ],
)
def test_shards_are_read_in_order_as_one_split(
    tmp_path: Path, below: str, shards: list[str]
) -> None:
    conll(tmp_path, *(below + name for name in shards), below + "validation-00000-of-00001.conll")
    task = task_of(tmp_path)
    assert task.splits == ("train", "dev")
    assert words(task.read("train")) == [(Path(name).name,) for name in shards]
    ids = [example.id for example in task.read("train").examples]
    assert ids == [f"train-{n}" for n in range(len(shards))]


def test_shards_of_every_format(tmp_path: Path) -> None:
    values = [("a fine film", "good"), ("a dull film", "bad")]
    for n, (text, label) in enumerate(values):
        name = f"train-{n:05d}-of-00002"
        pq.write_table(
            pa.table({"text": [text], "label": [label]}),
            write(tmp_path / "p" / f"{name}.parquet", ""),
        )
        line = json_lines({"text": text, "label": label})
        write(tmp_path / "j" / f"{name}.jsonl", line)
        write(tmp_path / "g" / f"{name}.jsonl.gz", gzip.compress(line.encode()))
        write(tmp_path / "c" / f"{name}.csv", f"text,label\n{text},{label}\n")
    for folder in "pjgc":
        split = get_task(str(tmp_path / folder), kind="sentence").read("train")
        assert rows(split) == values, folder
        assert split.origin.startswith("train-00000-of-00002.")
        assert split.origin.endswith(" and 1 more")


def test_a_fault_is_told_with_its_shard(tmp_path: Path) -> None:
    write(tmp_path / "train-0.conll", "a B-X\n")
    write(tmp_path / "train-1.conll", "a O\nb B_X\n")
    with pytest.raises(DataError, match=r"train-1.conll, line 2: 'B_X'"):
        task_of(tmp_path).read("train")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["train-00000-of-00002.conll"], "one of 2 shards, of which number 1 is missing"),
        (["train-0.conll", "train-2.conll"], "one of 2 shards, of which number 1 is missing"),
        (["train-0.conll", "train-00.conll"], "of which number 1 is missing"),
        (["test-2016.conll", "test-2017.conll"], "of which number 1 is missing"),
        (["train.conll", "train-0.conll"], "train-0.conll and train.conll are both 'train'"),
        (["train-0.conll", "train_1.tsv"], "are both 'train'"),
        (["train/a.conll", "train/b.conll"], "train: a.conll and b.conll are both 'train'"),
        (["valid-0.conll", "validation-1.conll"], "are both 'dev'"),
        (["notes-0.conll"], r"no file is named after a split; .*train-00000-of-00002.parquet"),
    ],
)
def test_what_is_no_whole_split(tmp_path: Path, names: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        task_of(conll(tmp_path, *names))


def test_what_comes_near_is_named(tmp_path: Path) -> None:
    conll(tmp_path, "a/en/train-0.conll", "b/train.xml")
    with pytest.raises(DataError, match=r"Did you mean .*a/en\?$"):
        task_of(tmp_path / "a")
    with pytest.raises(
        DataError, match=r"train.xml has another format, or is of another --kind\.$"
    ):
        task_of(tmp_path / "b")


def test_one_shard_alone_is_the_split_that_its_name_says(tmp_path: Path) -> None:
    conll(tmp_path, "validation-00000-of-00002.conll")
    assert task_of(tmp_path / "validation-00000-of-00002.conll").splits == ("dev",)


def tagged() -> datasets.Dataset:
    names = datasets.List(datasets.ClassLabel(names=["O", "B-X"]))
    features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "ner": names})
    columns = {"tokens": [["EU", "calls"], ["No"]], "ner": [[1, 0], [0]]}
    return datasets.Dataset.from_dict(columns, features=features)


@pytest.mark.usefixtures("quick")
def test_a_saved_data_set(tmp_path: Path) -> None:
    tagged().save_to_disk(tmp_path / "one", num_shards=2)
    split = train(tmp_path / "one")
    assert words(split) == [("EU", "calls"), ("No",)]
    assert split.labels == {"ner": (("B-X", "O"), ("O",))}
    both = datasets.DatasetDict({"test": tagged(), "validation": tagged().select([1])})
    both.save_to_disk(tmp_path / "two")
    task = task_of(tmp_path / "two")
    assert task.splits == ("dev", "test")
    assert words(task.read("dev")) == [("No",)]
    assert task_of(tmp_path / "two" / "validation").splits == ("dev",)


@pytest.mark.usefixtures("quick")
def test_a_saved_data_set_of_texts(tmp_path: Path) -> None:
    label = datasets.ClassLabel(names=["bad", "good"])
    features = datasets.Features({"text": datasets.Value("string"), "label": label})
    saved = datasets.Dataset.from_dict({"text": ["a b", "c"], "label": [1, -1]}, features=features)
    saved.select([0]).with_format("numpy").save_to_disk(tmp_path / "a")
    assert rows(get_task(str(tmp_path / "a"), kind="sentence").read("train")) == [("a b", "good")]
    (tmp_path / "a" / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(DataError, match=r"/a: not a readable saved data set"):
        get_task(str(tmp_path / "a"), kind="sentence")
    state = json.loads((tmp_path / "a" / "state.json").read_text())
    assert state["_split"] is None
