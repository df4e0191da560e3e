"""Labels beside an entry."""

import shutil
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probekit.base.fingerprint import digest
from probekit.errors import DataError, EntryError
from probekit.store.labels import (
    GROUPS,
    carry_labels,
    files_of,
    groups_for,
    label_columns,
    labels_for,
    read_label_file,
    read_labels,
    write_labels,
)
from probekit.store.layout import labels_folder
from tests.store import synthetic

IDS = ["train-0", "train-1"]
VALUES = [("O", "B-PER"), ("O",)]
ABOUT = {"text": "of train, None", "kind": "tagging", "metric": "span-f1"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("labels")
    return synthetic.build(root / "tiny" / "demo" / "train-00000000", "zarr", "float16")


@pytest.fixture
def entry(built):
    yield built
    shutil.rmtree(labels_folder(built.path), ignore_errors=True)


def write(folder, column="ner", of="a" * 64, *, split="train", values=VALUES, **about):
    return write_labels(folder, split, column, IDS, values, **ABOUT | about, fingerprint=of)


def test_labels_come_back(entry):
    folder = labels_folder(entry.path)
    path = write(folder, of="ab" * 32)
    version = digest(["of train, None", "ab" * 32])[:8]
    assert path == entry.path.parent / "labels" / f"train-ner-{version}.parquet"
    found = read_labels(path)
    assert (found.ids, found.values) == (tuple(IDS), tuple(VALUES))
    assert (found.file.split, found.file.column) == ("train", "ner")
    assert found.file.fingerprint == "ab" * 32
    assert {name: getattr(found.file, name) for name in ABOUT} == ABOUT


def test_the_newest_comes_first(entry):
    folder = labels_folder(entry.path)
    for fingerprint in ("a" * 64, "b" * 64, "a" * 64):
        write(folder, of=fingerprint)
    write(folder, "pos", "c" * 64)
    write(folder, of="d" * 64, split="dev")
    assert [file.fingerprint[0] for file in labels_for(entry, "ner")] == ["a", "b"]
    assert labels_for(entry, "chunk") == []


def test_labels_that_are_dated_in_the_future_come_last(entry):
    folder = labels_folder(entry.path)
    for fingerprint, clock in (("a" * 64, 2**33), ("b" * 64, 0), ("a" * 64, 0), ("b" * 64, 0)):
        path = write(folder, of=fingerprint)
        if clock:
            table = pq.read_table(path)
            later = datetime.fromtimestamp(clock, UTC).isoformat().encode()
            about = table.schema.metadata | {b"created": later, b"sum": b""}
            pq.write_table(table.replace_schema_metadata(about), path)
        assert labels_for(entry, "ner")[0].fingerprint == fingerprint


def test_what_a_kill_left_goes_though_nothing_is_written(tmp_path):
    path = write(tmp_path)
    (tmp_path / f".{'0' * 32}.probekit").mkdir()
    (tmp_path / f".{'0' * 32}.probekit" / path.name).write_text("torn")
    write(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def test_counts_must_agree(tmp_path):
    with pytest.raises(DataError, match=r"one list per example \(2\), found 1"):
        write(tmp_path, values=VALUES[:1])


def test_foreign_files(entry):
    folder = labels_folder(entry.path)
    folder.mkdir()
    (folder / "notes.parquet").write_text("not parquet")
    with pytest.raises(EntryError, match=r"notes\.parquet is not a probekit label file"):
        labels_for(entry, "ner")


@pytest.mark.parametrize(
    ("ids", "values"),
    [(["a", None], [["O"], ["O"]]), (["a", "b"], [None, ["O"]]), (["a", "b"], [["O", None], []])],
)
def test_labels_with_gaps(tmp_path, ids, values):
    file = write(tmp_path)
    schema = pq.read_schema(file)
    pq.write_table(pa.table({"id": ids, "labels": values}, schema=schema), file)
    with pytest.raises(EntryError, match="an id or a label is missing"):
        read_labels(file)


def test_labels_of_another_text_are_not_carried(entry, tmp_path):
    folder = labels_folder(entry.path)
    path = write(folder)
    write(folder, of="b" * 64, text="another")
    assert carry_labels(entry.path, entry.manifest, tmp_path) == [tmp_path / path.name]


def test_labels_of_another_text_and_of_an_earlier_format_are_not_its_own(entry):
    folder = labels_folder(entry.path)
    own = write(folder)
    # The same labels, and ids: the words were corrected.
    write(folder, text="of train, corrected")
    earlier = pq.read_table(own)
    about = {"split": "train", "column": "ner", "fingerprint": "a" * 64, "created": "9999"}
    pq.write_table(earlier.replace_schema_metadata(about), folder / "train-ner-aaaaaaaa.parquet")
    assert [file.path for file in labels_for(entry, "ner")] == [own]


def test_groups_are_no_labels(entry):
    folder = labels_folder(entry.path)
    write(folder)
    path = write(folder, "document", "b", values=[("x",)] * 2, kind=GROUPS, metric="")
    assert label_columns(entry) == ["ner"] and labels_for(entry, "document") == []
    assert [file.path for file in groups_for(entry, "document")] == [path]
    assert groups_for(entry, "ner") == []
    assert {file.column for file in files_of(entry)} == {"ner", "document"}


def test_what_is_stored_is_not_written_again_unless_another_version_counts(entry):
    folder = labels_folder(entry.path)
    first = write(folder)
    before = first.stat().st_mtime_ns
    assert write(folder) == first
    assert first.stat().st_mtime_ns == before
    other = write(folder, of="b" * 64, values=VALUES[::-1])
    assert [file.path for file in labels_for(entry, "ner")] == [other, first]
    write(folder)
    assert [file.path for file in labels_for(entry, "ner")] == [first, other]
    content = first.read_bytes()
    first.write_bytes(content[:-20])  # torn
    write(folder)
    assert [file.path for file in labels_for(entry, "ner")] == [first, other]


FIELDS = [b"split", b"column", b"text", b"kind", b"metric", b"fingerprint", b"created"]


@pytest.mark.parametrize("field", FIELDS)
def test_damage_in_what_a_file_says_of_itself_is_told_and_mended(entry, field):
    path = write(labels_folder(entry.path))
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata(table.schema.metadata | {field: b"x"}), path)
    with pytest.raises(EntryError, match="is damaged, or was renamed"):
        labels_for(entry, "ner")
    write(labels_folder(entry.path))
    assert [file.path for file in labels_for(entry, "ner")] == [path]


def test_columns_whose_files_have_one_name_are_written(entry):
    for column in ("a b", "a_b"):
        write(labels_folder(entry.path), column)
        assert label_columns(entry) == [column]


def test_labels_that_stand_are_compared_with_others_read_once(entry, monkeypatch):
    folder, read = labels_folder(entry.path), []
    texts = [f"text {n}" for n in range(5)]
    for text in texts:
        write(folder, text=text)
    monkeypatch.setattr(
        "probekit.store.labels.read_label_file",
        lambda path, of=read_label_file: read.append(path) or of(path),
    )
    for text in texts:
        write(folder, text=text)
    assert len(read) == 2 * len(texts)  # each as the one that stands, and among all
