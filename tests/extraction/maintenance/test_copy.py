"""`cache copy`: the same entry in another root, byte for byte, complete or absent."""

import json
import multiprocessing
import os
import shutil
import signal
import time

import h5py
import pytest
import torch
import zarr

from probekit.base.fingerprint import digest
from probekit.errors import (
    EntryError,
    EntryLockedError,
    EntryNotFoundError,
    OptionError,
    StorageError,
)
from probekit.extraction.maintenance import (
    Conversion,
    EntryCopy,
    Reduction,
    check_chunks,
    copy_entries,
    find_stale,
    select_sources,
)
from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry, list_entries
from probekit.store.labels import labels_for, write_labels
from probekit.store.layout import labels_folder
from probekit.store.lock import EntryLock
from tests import tiny
from tests.cli.console import done, refused
from tests.extraction.corpus import write_corpus
from tests.extraction.extracted import run as extract
from tests.extraction.maintenance.copied import make_slowly
from tests.extraction.maintenance.test_conversion import without_manifest
from tests.store.synthetic import folder_bytes

FORMS = [
    ("zarr", "float16"), ("zarr", "int8"), ("hdf5", "bfloat16"), ("hdf5", "int8"),
    ("hdf5", "float32"),
]  # fmt: skip


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    return tiny.build("bert", folder / "bert"), write_corpus(folder / "corpus", sentences=24)


@pytest.fixture(scope="module")
def caches(inputs, tmp_path_factory):
    """Caches with one entry each, in small units, by format and dtype; not to be changed."""
    root, found = tmp_path_factory.mktemp("caches"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("probekit.extraction.units.UNIT_BYTES", 6_000)
        patch.setattr("probekit.extraction.plan.chunk_rows_for", lambda dim, dtype, rows: 16)
        keep = ("words", "tokens")
        entry = extract(*inputs, root / "zarr-float32", keep=keep)
        found["zarr", "float32"] = root / "zarr-float32"
        for format, dtype in FORMS:
            found[format, dtype] = cache = root / f"{format}-{dtype}"
            Conversion.of(entry.path, format=format, dtype=dtype, root=cache).apply()
    return found


@pytest.fixture
def cache(caches, tmp_path):
    """A cache of one's own."""
    return shutil.copytree(caches["zarr", "float32"], tmp_path / "cache")


def entry_in(cache):
    (folder,) = list_entries(cache)
    return folder.path


def flip(file, at):
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


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
        other = Conversion.of(entry_in(cache), dtype="float16", root=tmp_path / "a").apply()
    assert (other.path / "features.zarr" / "words" / "c.0.0.0").stat().st_size > 4 * 16 * 2
    copied = EntryCopy.of(other.path, tmp_path / "b").apply()
    assert folder_bytes(copied.path) == folder_bytes(other.path)
    part = EntryCopy.of(other.path, tmp_path / "b", layers="1").apply()
    assert check_chunks(copied.path) > check_chunks(part.path) > 0


def test_an_extraction_says_what_goes_on_with_a_conversion(inputs, caches, tmp_path, monkeypatch):
    way = Conversion.of(entry_in(caches["zarr", "float32"]), dtype="float16", root=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(EntryBuilder, "complete", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            way.apply()
    with pytest.raises(EntryError, match=r"of `probekit cache convert`\. Run that command again"):
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


def reseal(path):
    """Write a manifest for an entry as it is now."""
    from dataclasses import replace

    from probekit.store.checksums import other_files, places_of

    manifest = Entry.open(path).manifest
    files = other_files(path, places_of(path, manifest.backend, manifest.arrays).values())
    (path / "manifest.json").write_text(replace(manifest, files=files).to_json())


@pytest.mark.parametrize("form", [("zarr", "float16"), ("hdf5", "int8")], ids="-".join)
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
    ],
)
def test_tokens_come_along_with_their_layer_or_by_name(caches, tmp_path, part, arrays):
    copy = EntryCopy.of(entry_in(caches["zarr", "float32"]), tmp_path, **part)
    assert {spec.name: spec.layers for spec in copy.part.manifest.arrays} == arrays
    assert check_chunks(copy.apply().path) > 0


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"layers": "9"}, "layer 9 does not exist"),
        ({"arrays": ["cls"]}, "no array 'cls'"),
        (
            {"layers": "0", "arrays": ["tokens"]},
            r"layer 0 is not in tokens of .* hold \[3\]",
        ),
    ],
)
def test_a_part_that_is_not_there(caches, tmp_path, part, says):
    with pytest.raises((OptionError, EntryError), match=says):
        EntryCopy.of(entry_in(caches["zarr", "float32"]), tmp_path, **part)


def test_an_entry_that_is_there_is_left_alone(cache, tmp_path):
    path, to = entry_in(cache), tmp_path / "to"
    ((copy, there),) = copy_entries([path], to)
    assert not there
    renamed = shutil.move(to / path.parts[-3], to / "other-name")  # it is known by its key
    ((copy, there),) = copy_entries([path], to)
    assert there and copy.destination.path.is_relative_to(renamed)
    before = os.stat(copy.destination.path).st_ino
    ((copy, there),) = copy_entries([path], to, overwrite=True)
    assert not there and os.stat(copy.destination.path).st_ino != before


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


def test_a_damaged_chunk_is_named_and_nothing_of_it_is_seen(cache, tmp_path):
    path, to = entry_in(cache), tmp_path / "to"
    file = path / "features.zarr" / "words" / "c.3.1.0"
    flip(file, 9)
    with pytest.raises(EntryError, match=r"'words', row chunk 3, layer index 1 \(.*c.3.1.0"):
        EntryCopy.of(path, to).apply()
    (begun,) = list_entries(to)
    assert not begun.complete and (begun.path / "building" / "units" / "000002.json").is_file()
    with pytest.raises(EntryError, match="Run the same `probekit cache copy` command again"):
        Entry.open(begun.path)
    flip(file, 9)
    written = []
    copy = EntryBuilder.copy_unit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            EntryBuilder, "copy_unit", lambda b, unit, c: written.append(unit) or copy(b, unit, c)
        )
        entry = EntryCopy.of(path, to).apply()
    assert written[0] == 3, "what is marked is not copied again"
    assert folder_bytes(entry.path) == folder_bytes(path)


@pytest.mark.parametrize(
    "file",
    ["examples.parquet", "checksums.parquet", "backbone/config.json", "features.zarr/zarr.json"],
)
def test_a_damaged_file_is_named(cache, tmp_path, file):
    path = entry_in(cache)
    target = path / file
    target.write_bytes(target.read_bytes() + b" ")
    with pytest.raises(EntryError, match=file):
        EntryCopy.of(path, tmp_path / "to").apply()
    assert not [folder for folder in list_entries(tmp_path / "to") if folder.complete]


def test_a_damaged_manifest_is_refused(cache, tmp_path):
    file = entry_in(cache) / "manifest.json"
    file.write_text(file.read_text().replace('"causal": false', '"causal": true'))
    with pytest.raises(EntryError, match="seal does not fit"):
        EntryCopy.of(file.parent, tmp_path / "to")


def test_a_manifest_cannot_name_files_elsewhere(cache, tmp_path):
    path = entry_in(cache)
    manifest = Entry.open(path).manifest
    for name in ("../secret", "backbone/../../secret", "/etc/passwd", "building/x", "notes.txt"):
        manifest.files[name] = {"nbytes": 1, "xxh128": "0"}
        (path / "manifest.json").write_text(manifest.to_json())
        with pytest.raises(EntryError, match="no file of an entry"):
            EntryCopy.of(path, tmp_path / "to")
        del manifest.files[name]


def test_links_and_foreign_files_are_not_carried(cache, tmp_path):
    path = entry_in(cache)
    (path / "notes.txt").write_text("mine")
    (path / "features.zarr" / "words" / "secret").symlink_to("/etc/passwd")
    entry = EntryCopy.of(path, tmp_path / "to").apply()
    assert check_chunks(entry.path) > 0
    config = path / "backbone" / "config.json"
    config.rename(tmp_path / "config.json")
    config.symlink_to(tmp_path / "config.json")
    with pytest.raises(EntryError, match=r"config.json cannot be read .*no regular file"):
        EntryCopy.of(path, tmp_path / "more").apply()
    config.unlink()
    os.mkfifo(config)  # whoever opens it waits for ever
    with pytest.raises(EntryError, match="no regular file"):
        EntryCopy.of(path, tmp_path / "more").apply()


def test_a_cache_through_a_link_is_copied(cache, tmp_path):
    (tmp_path / "linked").symlink_to(cache)
    ((copy, _),) = copy_entries(
        select_sources([str(tmp_path / "linked")], tmp_path), tmp_path / "t"
    )
    assert folder_bytes(copy.destination.path) == folder_bytes(entry_in(cache))
    with pytest.raises(OptionError, match=r"is in .* already"):
        EntryCopy.of(entry_in(cache), tmp_path / "linked")


def test_a_torn_destination_is_written_again(cache, tmp_path, monkeypatch):
    path, to = entry_in(cache), tmp_path / "to"
    copy, count = EntryBuilder.copy_unit, []

    def three(builder, unit, chunks):
        if len(count) == 3:
            raise KeyboardInterrupt
        count.append(unit)
        copy(builder, unit, chunks)

    with monkeypatch.context() as patch:
        patch.setattr(EntryBuilder, "copy_unit", three)
        with pytest.raises(KeyboardInterrupt):
            EntryCopy.of(path, to).apply()
    begun = entry_in(to)
    flip(begun / "features.zarr" / "words" / "c.1.0.0", 3)
    (begun / "backbone").mkdir()
    (begun / "backbone" / "config.json.17.new").write_text("torn")
    entry = EntryCopy.of(path, to).apply()
    assert folder_bytes(entry.path) == folder_bytes(path)


def test_a_disk_that_keeps_something_else_is_told_of(cache, tmp_path, monkeypatch):
    from probekit.store.backends.zarr_folder import _ZarrWriter

    write = _ZarrWriter.write

    def forgets(writer, array, row_chunk, layer_index, data):
        write(writer, array, row_chunk, layer_index, data * (row_chunk != 1))

    monkeypatch.setattr(_ZarrWriter, "write", forgets)
    with pytest.raises(StorageError, match=r"row chunk 1.*does not keep what it is given"):
        EntryCopy.of(entry_in(cache), tmp_path / "to").apply()


def test_room_is_asked_for_before(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "probekit.extraction.maintenance.destination.free_bytes", lambda folder: 100
    )
    with pytest.raises(StorageError, match=r"has 100 B free, and .* are to be written"):
        list(copy_entries([entry_in(cache)], tmp_path / "to"))
    assert not (tmp_path / "to").exists()


def test_a_full_disk_keeps_what_is_done(cache, tmp_path, monkeypatch):
    from probekit.store.files import WholeFiles

    path, to = entry_in(cache), tmp_path / "to"
    write, count = WholeFiles.write, []

    def full(files, file, data, at=None):
        count.append(file)
        if len(count) > 20:
            raise OSError(28, "No space left on device")
        write(files, file, data, at)

    with monkeypatch.context() as patch:
        patch.setattr(WholeFiles, "write", full)
        with pytest.raises(StorageError, match=r"No space left .* run the same command again"):
            EntryCopy.of(path, to).apply()
    assert list(to.rglob("units/*.json"))
    assert folder_bytes(EntryCopy.of(path, to).apply().path) == folder_bytes(path)


def test_who_writes_and_what_is_unfinished(cache, tmp_path):
    path = entry_in(cache)
    with EntryLock(path), pytest.raises(EntryLockedError, match=r"written by process .* Wait"):
        EntryCopy.of(path, tmp_path / "to")
    copy = EntryCopy.of(path, tmp_path / "to")
    with EntryLock(copy.destination.path), pytest.raises(EntryLockedError):
        copy.apply()
    with pytest.raises(EntryNotFoundError):
        EntryCopy.of(path.with_name("train-00000000"), tmp_path / "to")
    owner = path.with_name(f"{path.name}.lock.json")  # left by a kill: nobody holds the lock
    owner.write_text(json.dumps({"host": "here", "pid": 1, "started": "now"}))
    copy.apply()


@pytest.mark.parametrize("what", ["replaced", "removed"])
def test_a_source_that_changes_meanwhile(cache, tmp_path, what):
    path = entry_in(cache)
    copy = EntryCopy.of(path, tmp_path / "to")
    manifest = path / "manifest.json"
    if what == "removed":
        shutil.rmtree(path)
    else:
        manifest.write_text(manifest.read_text().replace('"seal"', '"seal" '))
    with pytest.raises((EntryError, EntryNotFoundError), match=f"was {what} while it was read"):
        copy.apply()
    assert not [folder for folder in list_entries(tmp_path / "to") if folder.complete]


def test_another_source_does_not_go_on_with_a_copy(cache, tmp_path, monkeypatch):
    path = entry_in(cache)
    copy = EntryCopy.of(path, tmp_path / "to")
    with monkeypatch.context() as patch:
        patch.setattr(
            EntryBuilder, "complete_as", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            copy.apply()
    file = path / "manifest.json"
    manifest = json.loads(file.read_text())
    file.write_text(file.read_text().replace(manifest["created"], "2020-01-01T00:00:00+00:00"))
    with pytest.raises(EntryError, match="begun by `probekit cache copy`, of another source"):
        EntryCopy.of(path, tmp_path / "to").apply()
    entry = EntryCopy.of(path, tmp_path / "to", overwrite=True).apply()
    assert folder_bytes(entry.path) == folder_bytes(path)


def test_where_copies_cannot_go(cache, tmp_path):
    path = entry_in(cache)
    with pytest.raises(OptionError, match=r"is in .* already: give another root"):
        EntryCopy.of(path, cache)
    with pytest.raises(OptionError, match="lies in an entry"):
        EntryCopy.of(path, path / "deeper")
    moved = shutil.copytree(path, tmp_path / "a" / "b" / "renamed")
    with pytest.raises(OptionError, match="does not have the name of the entry in it"):
        EntryCopy.of(moved, tmp_path / "to")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write to .*file"):
        EntryCopy.of(path, tmp_path / "file").apply()


def test_of_several_the_sound_ones_are_copied(cache, caches, tmp_path):
    other = entry_in(caches["hdf5", "float32"])
    shutil.copytree(other, cache.joinpath(*other.parts[-3:]))
    flip(next(cache.rglob("words/c.0.0.0")), 1)
    found = select_sources([str(cache)], tmp_path)
    made = []
    with pytest.raises(EntryError, match="'words', row chunk 0, layer index 0"):
        made.extend(copy.destination.path.name for copy, _ in copy_entries(found, tmp_path / "to"))
    assert [f.path.name for f in list_entries(tmp_path / "to") if f.complete] == [other.name]


@pytest.mark.parametrize(
    ("form", "dtype"),
    [(("zarr", "float32"), None), (("hdf5", "int8"), None), (("hdf5", "float32"), "int8")],
)
def test_a_killed_one_goes_on(caches, tmp_path, monkeypatch, form, dtype):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.extraction.maintenance.copied"])
    path = entry_in(caches[form])
    process = context.Process(target=make_slowly, args=(path, tmp_path / "killed", dtype))
    process.start()

    def units():
        return list((tmp_path / "killed").rglob("units/*.json"))

    while process.is_alive() and len(units()) < 2:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL and units()
    assert not [folder for folder in list_entries(tmp_path / "killed") if folder.complete]
    monkeypatch.setattr("probekit.extraction.units.UNIT_BYTES", 6_000)
    monkeypatch.setattr("probekit.extraction.plan.chunk_rows_for", lambda dim, dtype, rows: 16)
    for root in ("killed", "whole"):
        make(path, tmp_path / root, dtype)
    assert folder_bytes(entry_in(tmp_path / "killed")) == folder_bytes(entry_in(tmp_path / "whole"))


def make(path, root, dtype):
    if dtype is None:
        EntryCopy.of(path, root).apply()
    else:
        Conversion.of(path, dtype=dtype, root=root).apply()


def test_other_libraries_read_a_copy(caches, tmp_path):
    stored = {}
    for form in (("zarr", "float32"), ("hdf5", "float32")):
        source = Entry.open(entry_in(caches[form]))
        copied = EntryCopy.of(source.path, tmp_path).apply()
        if form[0] == "zarr":
            group = zarr.open_group(str(copied.path / "features.zarr"), mode="r")
            stored[form] = group["words"][:]
        else:
            with h5py.File(copied.path / "features.h5") as file:
                stored[form] = file["words"][:]
        rows = source.arrays["words"].read(slice(None))
        assert torch.equal(torch.from_numpy(stored[form]), rows)


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
    assert "already: give another root" in refused("cache", "copy", "cache", "cache")
    assert "a URL cannot be used" in refused("cache", "copy", "cache", "s3://bucket/x")
    assert "no cache entry matches nothing" in refused("cache", "copy", "nothing", "to")
    partial = path.with_name(f"{path.name[:-8]}00000000.partial")
    partial.mkdir()
    assert "left out: " in done("cache", "copy", "cache", "to").err
    assert "is unfinished. Run the same `probekit extract`" in refused(
        "cache", "copy", partial, "to"
    )
    partial.rmdir()
    assert "say what is to change" in refused("cache", "convert", path)
    assert "float32 in zarr already" in refused("cache", "convert", path, "--dtype", "float32")
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
    one = Conversion.of(part.path, format="hdf5").apply()
    whole = Conversion.of(path, format="hdf5", root=tmp_path / "b").apply()
    other = EntryCopy.of(whole.path, tmp_path / "c", layers="1", arrays=["words"]).apply()
    assert one.manifest.key == other.manifest.key
    assert without_manifest(one) == without_manifest(other)
