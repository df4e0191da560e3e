"""Entries in an object store: built, replaced under readers, killed, raced for and removed."""

import json
import re

import pytest
import torch

from probekit.errors import EntryError, EntryLockedError, OptionError
from probekit.extraction.maintenance import Removable, check_chunks, find_stale, remove_stale
from probekit.store.backends import zarr_folder
from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry, list_entries
from probekit.store.layout import MANIFEST, beside
from tests.store import synthetic

NAME = "model/task/train-00000000"


def build(root, dtype="float16", **options):
    return synthetic.build(root / NAME, "zarr", dtype, **options)


def untimed(name, data):
    return re.sub(rb'"created": "[^"]+"', b"", data) if name == MANIFEST else data


@pytest.fixture
def sharded(monkeypatch):
    monkeypatch.setattr(zarr_folder, "_MOST_FILES", 4)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_the_files_are_those_of_a_folder(memory, tmp_path, dtype):
    there, here = build(memory, dtype), build(tmp_path, dtype)
    files = {name: (there.folder / name).read_bytes() for name in there.folder.below()}
    assert files == synthetic.folder_bytes(here.path)
    assert there.path == memory / NAME and there.folder.parent == there.path.parent
    switch = json.loads((there.path / MANIFEST).read_text())
    assert switch.pop("generation") == there.folder.name.rpartition(".")[2]
    assert switch == json.loads((there.folder / MANIFEST).read_text())
    assert list(there.path.below()) == [MANIFEST], "nothing is left of the building"
    assert not beside(there.path, ".partial").exists() and not beside(there.path, ".lock").exists()
    (row,) = list_entries(memory)
    assert (row.path, row.complete, row.task) == (there.path, True, "task")
    assert row.nbytes == sum(memory.below().values())


def test_shards_are_objects(memory, tmp_path, sharded):
    there, here = build(memory), build(tmp_path)
    names = [name for name in there.folder.below() if "/words/c." in name]
    assert len(names) == 9
    for name in names:
        assert (there.folder / name).read_bytes() == (here.path / name).read_bytes()
    rows = here.arrays["words"].read(slice(None))
    assert torch.equal(there.arrays["words"].read(slice(None)), rows)
    assert torch.equal(there.arrays["words"].read([70, 3], [2]), rows[[70, 3]][:, [2]])
    assert check_chunks(there.path) == check_chunks(here.path)


def test_a_reader_keeps_its_generation(memory):
    old = build(memory)
    rows = old.arrays["words"].read([1, 2])
    new = build(memory, overwrite=True)
    assert new.folder != old.folder and Entry.open(old.path).folder == new.folder
    assert torch.equal(old.arrays["words"].read(slice(None))[1:3], rows)
    (stale,) = find_stale(memory)
    assert (stale.path, stale.what) == (old.folder, "an entry that was replaced")
    assert [gone for _, gone in remove_stale(memory, [stale])] == [True]
    check_chunks(new.path)
    with pytest.raises(EntryError, match=r"is missing .* was replaced or removed meanwhile"):
        old.arrays["tokens"].read([0])


def test_it_exists_already(memory):
    build(memory)
    with pytest.raises(EntryError, match="exists and is complete"):
        build(memory)


def test_resumed_where_it_stopped(memory, tmp_path):
    path, plan = memory / NAME, synthetic.plan("zarr", "float16")
    with EntryBuilder(path, plan=plan) as builder:
        synthetic.write(builder, [0, 2])
        begun = builder._site.content
    (row,) = list_entries(memory)
    assert not row.complete and row.path == beside(path, ".partial")
    with pytest.raises(EntryError, match="is unfinished"):
        Entry.open(path)
    (begun / "features.zarr/words/c.0.0.0").unlink()  # of unit 0
    with EntryBuilder(path, plan=plan) as builder:
        assert builder._site.content == begun and set(builder.marks) == {2}
        entry = synthetic.finish(builder, "zarr", "float16")
    files = {name: (entry.folder / name).read_bytes() for name in entry.folder.below()}
    assert files == synthetic.folder_bytes(build(tmp_path).path)


def test_killed_after_the_switch(memory, monkeypatch):
    def killed(place):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("probekit.store.building_site.remove_path", killed)
        with pytest.raises(KeyboardInterrupt):
            build(memory)
    path = memory / NAME
    check_chunks(path)
    (stale,) = find_stale(memory)
    assert stale.path == beside(path, ".partial")
    first = Entry.open(path)
    second = build(memory, overwrite=True)
    assert second.folder != first.folder, "what is read is not written again"
    check_chunks(path)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_switch_that_loses(memory, overwrite):
    """The lock was lost, unseen, and another process was first."""
    path = memory / NAME
    if overwrite:
        build(memory)
    with EntryBuilder(path, plan=synthetic.plan("zarr", "float16"), overwrite=overwrite) as builder:
        synthetic.write(builder, range(synthetic.N_UNITS))
        (path / MANIFEST).write_bytes(b"another")
        with pytest.raises(EntryLockedError, match="was completed by another process meanwhile"):
            synthetic.finish(builder, "zarr", "float16")
    assert (path / MANIFEST).read_bytes() == b"another"


def test_one_writer(memory):
    path, plan = memory / NAME, synthetic.plan("zarr", "float16")
    with EntryBuilder(path, plan=plan), pytest.raises(EntryLockedError, match="process"):
        EntryBuilder(path, plan=plan)
    EntryBuilder(path, plan=plan).close()


def test_hdf5_needs_a_folder(memory):
    with pytest.raises(OptionError, match="an HDF5 file is written in place"):
        synthetic.build(memory / NAME, "hdf5", "float16")
    assert not memory.exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("features.zarr/words/c.1.2.0", "array 'words', row chunk 1, layer index 2"),
        ("examples.parquet", "examples.parquet is not as it was written"),
        ("../train-00000000/manifest.json", "manifest.json is not as it was written"),
    ],
)
def test_damage_is_found(memory, name, says):
    entry = build(memory)
    file = entry.folder.with_name("train-00000000") / MANIFEST if ".." in name else (
        entry.folder / name
    )  # fmt: skip
    data = bytearray(file.read_bytes())
    data[-20] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(EntryError, match=says):
        check_chunks(entry.path)


def test_a_missing_chunk(memory):
    entry = build(memory)
    (entry.folder / "features.zarr/words/c.1.2.0").unlink()
    with pytest.raises(EntryError, match=r"chunk \(row chunk 1, layer index 2\) is missing"):
        Entry.open(entry.path)


def test_all_of_it_is_removed(memory):
    key = synthetic.manifest("zarr", "float16").key
    path = memory / f"model/task/train-{key[:8]}"
    synthetic.build(path, "zarr", "float16")
    Removable.of(path).remove()
    assert memory.below() == {}
