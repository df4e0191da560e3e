"""Labels beside an entry."""

import pytest

from probekit.errors import DataError, EntryError
from probekit.store.labels import labels_for, read_labels, write_labels
from probekit.store.layout import labels_folder
from tests.store import synthetic

IDS = ["train-0", "train-1"]
VALUES = [("O", "B-PER"), ("O",)]


@pytest.fixture
def entry(tmp_path):
    return synthetic.build(tmp_path / "tiny" / "demo" / "train-00000000", "zarr", "float16")


def test_labels_come_back(entry):
    folder = labels_folder(entry.path)
    path = write_labels(folder, "train", "ner", IDS, VALUES, "ab" * 32)
    assert path == entry.path.parent / "labels" / "train-ner-abababab.parquet"
    found = read_labels(path)
    assert (found.ids, found.values) == (tuple(IDS), tuple(VALUES))
    assert (found.file.split, found.file.column) == ("train", "ner")
    assert found.file.fingerprint == "ab" * 32


def test_the_newest_comes_first(entry):
    folder = labels_folder(entry.path)
    for fingerprint in ("a" * 64, "b" * 64, "a" * 64):
        write_labels(folder, "train", "ner", IDS, VALUES, fingerprint)
    write_labels(folder, "train", "pos", IDS, VALUES, "c" * 64)
    write_labels(folder, "dev", "ner", IDS, VALUES, "d" * 64)
    assert [file.fingerprint[0] for file in labels_for(entry, "ner")] == ["a", "b"]
    assert labels_for(entry, "chunk") == []


def test_counts_must_agree(tmp_path):
    with pytest.raises(DataError, match=r"one list per example \(2\), found 1"):
        write_labels(tmp_path, "train", "ner", IDS, VALUES[:1], "a" * 64)


def test_foreign_files(entry):
    folder = labels_folder(entry.path)
    folder.mkdir()
    (folder / "notes.parquet").write_text("not parquet")
    with pytest.raises(EntryError, match=r"notes\.parquet is not a probekit label file"):
        labels_for(entry, "ner")
