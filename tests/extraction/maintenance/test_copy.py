"""`cache copy`: the same entry in another root, byte for byte, complete or absent."""

import json
import os
import shutil

import h5py
import pytest
import torch

from probekit.base.fingerprint import digest
from probekit.errors import EntryError, OptionError
from probekit.extraction.maintenance import (
    EntryCopy,
    Reduction,
    check_chunks,
    copy_entries,
    find_stale,
    plan_conversion,
)
from probekit.store.entry import Entry
from probekit.store.labels import labels_for, write_labels
from probekit.store.layout import labels_folder
from tests.cli.console import done, refused
from tests.extraction.extracted import interrupted_after
from tests.extraction.extracted import run as extract
from tests.extraction.maintenance.conftest import FORMS, entry_in, reseal
from tests.extraction.maintenance.test_conversion import without_manifest
from tests.store.synthetic import folder_bytes


@pytest.mark.parametrize("form", FORMS, ids="-".join)
def test_a_copy_is_the_same_byte_for_byte(caches, tmp_path, form):
    path = entry_in(caches[form])
    entry = EntryCopy.of(path, tmp_path).apply()
    assert entry.path == tmp_path / path.relative_to(caches[form])
    assert folder_bytes(tmp_path) == {
        name: data for name, data in folder_bytes(caches[form]).items()
        if not name.endswith(".lock")
    } | {f"{entry.path.relative_to(tmp_path)}.lock": b""}  # fmt: skip
    assert check_chunks(entry.path) > 0
    assert labels_for(entry, "2") and not find_stale(tmp_path)


def test_shards_stay_shards(cache, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("probekit.store.backends.zarr_folder._MOST_FILES", 4)
        other = plan_conversion(entry_in(cache), dtype="float16", root=tmp_path / "a").apply()
    assert (other.path / "features.zarr" / "words" / "c.0.0.0").stat().st_size > 4 * 16 * 2
    copied = EntryCopy.of(other.path, tmp_path / "b").apply()
    assert folder_bytes(copied.path) == folder_bytes(other.path)
    part = EntryCopy.of(other.path, tmp_path / "b", layers="1").apply()
    assert check_chunks(copied.path) > check_chunks(part.path) > 0


def test_an_extraction_says_what_goes_on_with_a_conversion(inputs, caches, tmp_path):
    way = plan_conversion(entry_in(caches["zarr", "float32"]), dtype="float16", root=tmp_path)
    with interrupted_after(0, "complete"):
        way.apply()
    with pytest.raises(EntryError, match=r"by `probekit cache convert`\. Run that command again"):
        extract(*inputs, tmp_path, keep=("words", "tokens"), dtype="float16")


def test_a_store_that_another_version_made_stays_as_it_is(cache, caches, tmp_path):
    """Metadata with other spaces, and an HDF5 file repacked, are copied, not made again."""
    entry = Entry.open(entry_in(cache))
    file = entry.path / "features.zarr" / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text())))
    reseal(entry.path)
    copied = EntryCopy.of(entry.path, tmp_path / "to").apply()
    assert folder_bytes(copied.path) == folder_bytes(entry.path)
    other = shutil.copytree(caches["hdf5", "float32"], tmp_path / "other")
    store = entry_in(other) / "features.h5"
    with h5py.File(store) as old, h5py.File(store.with_name("repacked"), "w") as new:
        for name in reversed(list(old)):
            data = new.create_dataset(
                name, old[name].shape, old[name].dtype, chunks=old[name].chunks
            )
            data[:] = old[name][:]
    store.with_name("repacked").rename(store)
    reseal(store.parent)
    copied = EntryCopy.of(store.parent, tmp_path / "to").apply()
    assert folder_bytes(copied.path) == folder_bytes(store.parent)


@pytest.mark.parametrize("form", [("zarr", "int8"), ("hdf5", "int8")], ids="-".join)
def test_a_part_is_what_rm_leaves(caches, tmp_path, form):
    path = entry_in(caches[form])
    part = EntryCopy.of(path, tmp_path / "part", layers="0,3", arrays=["words"]).apply()
    shutil.copytree(caches[form], tmp_path / "left")
    mine = entry_in(tmp_path / "left")
    left = Reduction.of(mine, layers="1,2", arrays=["tokens"]).apply()
    assert folder_bytes(part.path) == folder_bytes(left.path)
    assert part.path.name == left.path.name and labels_for(part, "2")
    rows = Entry.open(path).arrays["words"].read(slice(None), [0, 3])
    assert torch.equal(part.arrays["words"].read(slice(None)), rows)


@pytest.mark.parametrize(
    ("part", "arrays"),
    [
        ({"layers": "0,3"}, {"words": (0, 3), "tokens": (3,)}),
        ({"layers": "0,1"}, {"words": (0, 1)}),  # tokens are of layer 3
        ({"layers": "0", "arrays": ["words", "tokens"]}, {"words": (0,), "tokens": (3,)}),
        ({"layers": "-1", "arrays": ["tokens"]}, {"tokens": (3,)}),
        ({"layers": "9"}, "layer 9 does not exist"),
        ({"arrays": ["cls"]}, "no array 'cls'"),
        ({"layers": "0", "arrays": ["tokens"]}, r"layer 0 is not in tokens of .* hold \[3\]"),
    ],
)
def test_tokens_come_along_with_their_layer_or_by_name(caches, tmp_path, part, arrays):
    path = entry_in(caches["zarr", "float32"])
    if isinstance(arrays, str):
        with pytest.raises((OptionError, EntryError), match=arrays):
            EntryCopy.of(path, tmp_path, **part)
    else:
        specs = EntryCopy.of(path, tmp_path, **part).manifest.arrays
        assert {spec.name: spec.layers for spec in specs} == arrays


def test_an_entry_that_is_there_is_left_alone(cache, tmp_path):
    path, to = entry_in(cache), tmp_path / "to"
    ((copy, there),) = copy_entries([path], to)
    assert not there
    renamed = shutil.move(to / path.parts[-3], to / "other-name")  # it is known by its key
    ((copy, there),) = copy_entries([path], to)
    assert there and copy.path.is_relative_to(renamed)
    before = os.stat(copy.path).st_ino
    ((copy, there),) = copy_entries([path], to, overwrite=True)
    assert not there and os.stat(copy.path).st_ino != before


def test_labels_that_are_newer_come_along_and_newer_ones_stay(cache, tmp_path):
    entry = Entry.open(entry_in(cache))
    copied = EntryCopy.of(entry.path, tmp_path / "to").apply()

    def label(where, value):
        write_labels(
            labels_folder(where.path), "train", "2", entry.examples.ids,
            [[value] * n for n in entry.examples.n_rows], kind="tagging", metric="accuracy",
            text=entry.manifest.request["text"], fingerprint=digest(value),
        )  # fmt: skip

    label(entry, "B")
    EntryCopy.of(entry.path, tmp_path / "to").apply()
    assert labels_for(copied, "2")[0].fingerprint == digest("B")
    label(copied, "C")
    EntryCopy.of(entry.path, tmp_path / "to").apply()
    assert labels_for(copied, "2")[0].fingerprint == digest("C")
    assert len(labels_for(copied, "2")) == 3
    for stranger in ("train-2-00000000.parquet", "train-2-pipe.parquet"):
        (labels_folder(entry.path) / stranger).unlink(missing_ok=True)
    os.mkfifo(labels_folder(entry.path) / "train-2-pipe.parquet")
    (labels_folder(entry.path) / "notes.parquet").write_text("no labels of this split")
    EntryCopy.of(entry.path, tmp_path / "to").apply()
    (labels_folder(entry.path) / "train-2-00000000.parquet").write_text("torn")
    with pytest.raises(EntryError, match=r"train-2-00000000\.parquet"):
        EntryCopy.of(entry.path, tmp_path / "to").apply()


def test_the_commands(inputs, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = entry_in(cache).relative_to(tmp_path)
    outcome = done("cache", "copy", "cache", "to")
    assert outcome.err.startswith(f"copied to to/{path.relative_to('cache')} (")
    assert done("cache", "copy", *inputs, "train", "to").err == (
        f"there already: to/{path.relative_to('cache')}\n"
    )
    outcome = done("cache", "copy", path, "few", "--layers", "2:", "--array", "words")
    (row,) = done("cache", "ls", "--cache", "few", "--json").rows
    assert (row["layers"], row["state"]) == (2, "complete") and row["key"] in outcome.err
    few = ("--cache", "few", "--layers", "2,3", "--hold-out", "0.2")
    done("train", *inputs, "--head", "mean", *few)
    assert "ftp://host/x is a URL, but a cache is a folder" in refused(
        "cache", "copy", "cache", "ftp://host/x"
    )
    assert "no cache entry matches nothing" in refused("cache", "copy", "nothing", "to")
    partial = path.with_name(f"{path.name[:-8]}00000000.partial")
    partial.mkdir()
    assert "left out: " in done("cache", "copy", "cache", "to").err
    assert "is unfinished. Run the same `probekit extract`" in refused(
        "cache", "copy", partial, "to"
    )
    partial.rmdir()
    assert "say what is to change" in refused("cache", "convert", path)
    outcome = done("cache", "convert", *inputs, "--dtype", "float16", "--to", "half")
    assert outcome.err.startswith("converted to half/")
    outcome = done("cache", "convert", *inputs, "--cache", "half", "--dtype", "int8")
    assert "was rounded to float16 before" in outcome.err
    again = done("cache", "convert", *inputs, "--cache", "half", "--dtype", "int8")
    assert again.err.splitlines()[-1].startswith("there already: half/")
    done("cache", "verify", *inputs, "--cache", "half", "--rows", "10")
    told = done("cache", "info", *inputs, "--cache", "half").out
    assert "int8, rounded to float16, computed in float32" in told
    both = refused("train", *inputs, "--cache", "half", "--head", "mean", "--hold-out", "0.2")
    assert "2 entries match" in both and "through float16" in both


def test_the_part_of_a_conversion_and_the_conversion_of_a_part_are_one(caches, tmp_path):
    path = entry_in(caches["zarr", "float32"])
    part = EntryCopy.of(path, tmp_path / "a", layers="1", arrays=["words"]).apply()
    one = plan_conversion(part.path, format="hdf5").apply()
    whole = plan_conversion(path, format="hdf5", root=tmp_path / "b").apply()
    other = EntryCopy.of(whole.path, tmp_path / "c", layers="1", arrays=["words"]).apply()
    assert one.manifest.key == other.manifest.key
    assert without_manifest(one) == without_manifest(other)
