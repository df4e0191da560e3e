"""Splits, names and folders of the user's own files."""

from pathlib import Path

import pytest

from probekit.errors import DataError, MissingFileError, OptionError, UnknownNameError
from probekit.tasks import get_task
from tests.tasks.own_files import CONLLU, json_lines, task_of, words, write


def test_splits_of_a_folder(tmp_path: Path) -> None:
    for file in ("train.conll", "validation.conll", "testb.conll", "notes.conll", "README.md"):
        write(tmp_path / "f" / file, f"{file.partition('.')[0]} O\n")
    task = task_of(tmp_path / "f")
    assert task.splits == ("train", "dev", "test")
    assert words(task.read("dev")) == [("validation",)]
    assert task.read("dev").examples[0].id == "dev-0"
    write(tmp_path / "f" / "val.jsonl", "")
    with pytest.raises(DataError, match=r"val.jsonl and validation.conll are both 'dev'"):
        task_of(tmp_path / "f")


def test_splits_of_a_treebank_folder(tmp_path: Path) -> None:
    write(tmp_path / "en_x-ud-train.conllu", CONLLU)
    write(tmp_path / "en_x-ud-test.conllu", CONLLU)
    assert task_of(tmp_path, label="upos").splits == ("train", "test")


@pytest.mark.parametrize(
    ("stem", "split"),
    [
        ("train", "train"),
        ("dev", "dev"),
        ("valid", "dev"),
        ("validation", "dev"),
        ("val", "dev"),
        ("testa", "dev"),
        ("test", "test"),
        ("testb", "test"),
        ("Test", "test"),
        ("mine", "train"),
    ],
)
def test_a_single_file_is_the_split_that_its_name_says(
    tmp_path: Path, stem: str, split: str
) -> None:
    task = task_of(write(tmp_path / f"{stem}.conll", "a O\n"))
    assert task.splits == (split,)
    with pytest.raises(UnknownNameError, match=rf"Choose from: {split}\."):
        task.read("other")


def test_the_label_of_the_first_split_holds_for_all(tmp_path: Path) -> None:
    write(tmp_path / "train.conll", "a X B-NP O\n")
    write(tmp_path / "dev.conll", "a O\n")
    write(tmp_path / "test.conll", "a\n")
    task = task_of(tmp_path)
    assert task.read("test").labels == {}
    with pytest.raises(OptionError, match=r"--label 3: .*dev.conll has 2 columns"):
        task.read("dev")


def test_a_split_without_labels(tmp_path: Path) -> None:
    for file, labelled, blind in (
        ("jsonl", json_lines({"tokens": ["a"], "t": ["X"]}), json_lines({"tokens": ["a"]})),
        ("csv", "token,t\na,X\n", "token\na\n"),
    ):
        write(tmp_path / file / f"train.{file}", labelled)
        write(tmp_path / file / f"test.{file}", blind)
        task = task_of(tmp_path / file)
        assert task.read("train").labels == {"t": (("X",),)}
        assert task.read("test").labels == {}
        with pytest.raises(DataError, match=r"no labels in column 't'"):
            task_of(tmp_path / file / f"test.{file}", label="t")


def test_slug_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write(tmp_path / "one" / "my data.conll", "a O\n")
    two = write(tmp_path / "two" / "my data.conll", "a B-X\n")
    other = write(tmp_path / "other" / "my data.conll", "b O\n")
    slugs = [task_of(path).slug for path in (one, two, other)]
    assert slugs[0] == slugs[1] != slugs[2]  # the text decides, not the place, nor the labels
    assert all(slug.startswith("my-data-") and len(slug) == 16 for slug in slugs)
    folder = write(tmp_path / "people" / "dev.conll", "a O\n").parent
    assert task_of(folder).slug == task_of(folder / "dev.conll").slug
    assert task_of(folder).slug.startswith("people-")
    monkeypatch.chdir(one.parent)
    relative = get_task("my data.conll")
    assert relative.slug == task_of(one).slug
    assert relative.name == "my data.conll"


def test_data_beside_a_path_holds_the_same_splits(tmp_path: Path) -> None:
    task = task_of(write(tmp_path / "a.conll", "a O\n"))
    corrected = write(tmp_path / "new" / "train.conll", "a B-X\n").parent
    assert task.read("train", corrected).labels == {"1": (("B-X",),)}
    write(tmp_path / "other" / "dev.conll", "a O\n")
    with pytest.raises(MissingFileError, match=r"other: no file for split 'train', only dev. Name"):
        task.read("train", tmp_path / "other")
