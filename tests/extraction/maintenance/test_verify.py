"""`cache verify` covers the whole entry: whatever is changed in it is found, and named."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probekit.base.fingerprint import digest
from probekit.errors import EntryError
from probekit.extraction.maintenance import check_chunks
from probekit.store.files import checksum
from probekit.store.labels import write_labels
from probekit.store.layout import labels_folder
from tests.store import synthetic

PLACES = 3


def changes(data):
    """Yield what may become of a file: emptied, cut, zeroed, longer, or one bit of it changed."""
    yield b""
    yield data[: len(data) // 2]
    yield data[:-1]
    yield bytes(len(data))
    yield data + b"\n"
    for place in range(0, len(data), max(len(data) // PLACES, 1)):
        yield data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


ABOUT = {"text": "x", "kind": "tagging", "metric": "span-f1", "fingerprint": "0" * 64}


@pytest.fixture(params=["zarr", "hdf5"])
def entry(request, tmp_path):
    built = synthetic.build(tmp_path / "root" / "model" / "train-00000000", request.param, "int8")
    assert check_chunks(built.path) == 132
    return built


def files_of(entry):
    """Every file of an entry, of the chunks' files the first and the last."""
    files = sorted(file for file in entry.path.rglob("*") if file.is_file())
    chunks = [file for file in files if file.name.startswith("c.")]
    return [file for file in files if file not in chunks[1:-1]]


def without_time(data):
    return re.sub(rb'"created": "[^"]*"', b"", data)


def test_a_change_in_any_file_is_named(entry):
    for file in files_of(entry):
        data = file.read_bytes()
        for number, changed in enumerate(changes(data)):
            if without_time(changed) == without_time(data):
                continue  # an empty file has no other half; when it was made is not sealed
            file.write_bytes(changed)
            with pytest.raises(EntryError) as caught:
                check_chunks(entry.path)
            assert str(file) in str(caught.value), (number, file)
        file.unlink()
        with pytest.raises(EntryError, match=file.name):
            check_chunks(entry.path)
        file.write_bytes(data)
    assert check_chunks(entry.path) == 132


def test_a_change_between_the_chunks_of_an_hdf5_file(tmp_path):
    """Its structure is no chunk, and h5py does not look at every byte of it."""
    entry = synthetic.build(tmp_path / "train-00000000", "hdf5", "float16")
    file = entry.path / "features.h5"
    data = file.read_bytes()
    for place in range(0, 1200, 37):
        file.write_bytes(data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :])
        with pytest.raises(EntryError, match=r"features\.h5"):
            check_chunks(entry.path)


def test_a_file_that_is_none_of_the_entry(entry, tmp_path):
    (entry.path / "building" / "units").mkdir(parents=True)  # what a kill left means nothing
    (entry.path / "building" / "plan.json").write_text("{}")
    assert check_chunks(entry.path) == 132
    for name in ("notes.txt", "backbone/more.json", "c.0.0.0"):
        (entry.path / name).write_text("mine")
        with pytest.raises(EntryError, match=f"{name} is not a file of the entry"):
            check_chunks(entry.path)
        (entry.path / name).unlink()
    file = entry.path / "backbone" / "config.json"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EntryError, match=r"config\.json has changed since it was written"):
        check_chunks(entry.path)
    (entry.path / "more").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(EntryError, match=" and 1 more"):
        check_chunks(entry.path)


def rewritten(entry, change):
    """Rewrite an entry's checksums and the manifest's word on them, as a forger would."""
    file = entry.path / "checksums.parquet"
    table = change(pq.ParquetFile(file).read())
    pq.write_table(table, file)
    manifest = entry.path / "manifest.json"
    values = json.loads(manifest.read_text())
    values["files"][file.name]["xxh128"] = checksum(file.read_bytes())
    manifest.write_text(json.dumps(values))
    return file


def test_chunks_of_no_bytes_match_nothing(entry, monkeypatch):
    def no_bytes(table):
        at = table.schema.get_field_index("nbytes")
        return table.set_column(at, "nbytes", pa.array([0] * len(table), pa.int64()))

    file = rewritten(entry, no_bytes)
    monkeypatch.setattr("probekit.extraction.maintenance.entries.verify_files", lambda path: [])
    with pytest.raises(EntryError, match=f"{file} does not list every chunk .* with its size"):
        check_chunks(entry.path)


def test_a_manifest_whose_key_is_of_another_request(entry):
    file = entry.path / "manifest.json"
    values = json.loads(file.read_text())
    for change in ({"request": {"x": 1}}, {"key": digest({"x": 1})}):
        file.write_text(json.dumps(values | change))
        with pytest.raises(EntryError, match=r"manifest\.json: the key .* is not the digest"):
            check_chunks(entry.path)


def test_labels_are_read(entry):
    """Of the entry's split; those of another are another entry's."""
    folder, ids = labels_folder(entry.path), list(entry.examples.ids)
    names = [["B", "I"] for _ in ids]
    write_labels(folder, "train2", "ner", ids, names, **ABOUT).write_bytes(b"")
    file = write_labels(folder, "train", "ner", ids, names, **ABOUT)
    assert check_chunks(entry.path) == 132
    data = file.read_bytes()
    flipped = data[:60] + bytes([data[60] ^ 0xFF]) + data[61:]  # of the first page of values
    for changed in (b"", data[: len(data) // 2], flipped):
        file.write_bytes(changed)
        with pytest.raises(EntryError, match=file.name):
            check_chunks(entry.path)
