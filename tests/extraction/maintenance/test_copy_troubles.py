"""`cache copy` from sources that are damaged or change, to disks that refuse, killed half-way."""

import json
import os
import shutil

import pytest

from probekit.errors import (
    EntryError,
    EntryLockedError,
    EntryNotFoundError,
    OptionError,
    StorageError,
)
from probekit.extraction.maintenance import (
    EntryCopy,
    check_chunks,
    convert_entries,
    copy_entries,
    plan_conversion,
    select_sources,
)
from probekit.store.backends import ChunkWriter
from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry, list_entries
from probekit.store.lock import EntryLock
from tests.extraction.conftest import make_small
from tests.extraction.extracted import interrupted_after
from tests.extraction.maintenance.conftest import entry_in, flip
from tests.forks import kill_at
from tests.store.synthetic import folder_bytes


def test_a_damaged_chunk_is_named_and_nothing_of_it_is_seen(cache, tmp_path, monkeypatch):
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
    written, copy = [], EntryBuilder.copy_unit
    monkeypatch.setattr(
        EntryBuilder, "copy_unit", lambda b, unit, c: written.append(unit) or copy(b, unit, c)
    )
    entry = EntryCopy.of(path, to).apply()
    assert written[0] == 3, "what is marked is not copied again"
    assert folder_bytes(entry.path) == folder_bytes(path)


def test_a_damaged_file_is_named(cache, tmp_path):
    path = entry_in(cache)
    for file in (
        "examples.parquet",
        "checksums.parquet",
        "backbone/config.json",
        "features.zarr/zarr.json",
    ):
        good = (path / file).read_bytes()
        (path / file).write_bytes(good + b" ")
        with pytest.raises(EntryError, match=file):
            EntryCopy.of(path, tmp_path / "to", overwrite=True).apply()
        assert not [folder for folder in list_entries(tmp_path / "to") if folder.complete]
        (path / file).write_bytes(good)
    manifest = path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"causal": false', '"causal": true'))
    with pytest.raises(EntryError, match=r"manifest\.json has changed since"):
        EntryCopy.of(path, tmp_path / "to")


def test_a_manifest_cannot_name_files_elsewhere(cache, tmp_path):
    path = entry_in(cache)
    manifest = Entry.open(path).manifest
    for name in ("../secret", "backbone/../../secret", "/etc/passwd", "building/x", "notes.txt"):
        manifest.files[name] = {"nbytes": 1, "xxh128": "0"}
        (path / "manifest.json").write_text(manifest.to_json())
        with pytest.raises(EntryError, match="not a file of an entry"):
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
    with pytest.raises(EntryError, match=r"config.json cannot be read .*not a regular file"):
        EntryCopy.of(path, tmp_path / "more").apply()
    config.unlink()
    os.mkfifo(config)  # whoever opens it waits for ever
    with pytest.raises(EntryError, match="not a regular file"):
        EntryCopy.of(path, tmp_path / "more").apply()


def test_a_cache_through_a_link_is_copied(cache, tmp_path):
    (tmp_path / "linked").symlink_to(cache)
    ((copy, _),) = copy_entries(
        select_sources([str(tmp_path / "linked")], tmp_path), tmp_path / "t"
    )
    assert folder_bytes(copy.path) == folder_bytes(entry_in(cache))


def test_a_torn_destination_is_written_again(cache, tmp_path):
    path, to = entry_in(cache), tmp_path / "to"
    with interrupted_after(3, "copy_unit"):
        EntryCopy.of(path, to).apply()
    begun = entry_in(to)
    flip(begun / "features.zarr" / "words" / "c.1.0.0", 3)
    left = begun / "backbone" / f".{'0' * 32}.probekit"
    left.mkdir(parents=True)
    (left / "config.json").write_text("torn")
    entry = EntryCopy.of(path, to).apply()
    assert folder_bytes(entry.path) == folder_bytes(path)


def test_a_disk_that_keeps_something_else_is_told_of(cache, tmp_path, monkeypatch):
    write = ChunkWriter.write

    def forgets(writer, array, row_chunk, layer_index, data):
        write(writer, array, row_chunk, layer_index, data * (row_chunk != 1))

    monkeypatch.setattr(ChunkWriter, "write", forgets)
    with pytest.raises(StorageError, match=r"row chunk 1.*the disk loses data"):
        EntryCopy.of(entry_in(cache), tmp_path / "to").apply()


def test_room_is_asked_for_before(cache, tmp_path, monkeypatch):
    monkeypatch.setattr("probekit.store.files.free_bytes", lambda folder: 100)
    path, to = entry_in(cache), tmp_path / "to"
    with pytest.raises(StorageError, match=r"has 100 B free, and this copy writes"):
        list(copy_entries([path], to))
    with pytest.raises(StorageError, match="has 100 B free, and this conversion writes"):
        list(convert_entries([path], root=to, dtype="float16"))
    assert not to.exists()


def test_who_writes_and_what_is_unfinished(cache, tmp_path):
    path = entry_in(cache)
    with EntryLock(path), pytest.raises(EntryLockedError, match=r"written by process .* Wait"):
        EntryCopy.of(path, tmp_path / "to")
    copy = EntryCopy.of(path, tmp_path / "to")
    with EntryLock(copy.path), pytest.raises(EntryLockedError):
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


def test_another_source_does_not_go_on_with_a_copy(cache, tmp_path):
    path = entry_in(cache)
    with interrupted_after(0, "complete_as"):
        EntryCopy.of(path, tmp_path / "to").apply()
    file = path / "manifest.json"
    manifest = json.loads(file.read_text())
    file.write_text(file.read_text().replace(manifest["created"], "2020-01-01T00:00:00+00:00"))
    with pytest.raises(EntryError, match="begun by `probekit cache copy`, from another source"):
        EntryCopy.of(path, tmp_path / "to").apply()
    entry = EntryCopy.of(path, tmp_path / "to", overwrite=True).apply()
    assert folder_bytes(entry.path) == folder_bytes(path)


def test_where_copies_cannot_go(cache, tmp_path):
    path = entry_in(cache)
    (tmp_path / "linked").symlink_to(cache)
    for root in (cache, tmp_path / "linked"):
        with pytest.raises(OptionError, match=r"is in .* already: give another root"):
            EntryCopy.of(path, root)
    with pytest.raises(OptionError, match="is inside an entry"):
        EntryCopy.of(path, path / "deeper")
    moved = shutil.copytree(path, tmp_path / "a" / "b" / "renamed")
    with pytest.raises(OptionError, match="the folder's name is not that of the entry in it"):
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
        made.extend(copy.path.name for copy, _ in copy_entries(found, tmp_path / "to"))
    assert [f.path.name for f in list_entries(tmp_path / "to") if f.complete] == [other.name]


@pytest.mark.parametrize(
    ("form", "dtype", "target"),
    [
        (("zarr", "float32"), None, "damaged_chunks"),
        (("hdf5", "int8"), None, "damaged_chunks"),
        (("hdf5", "float32"), "int8", "checksum"),
    ],
)
def test_a_killed_one_goes_on(caches, tmp_path, monkeypatch, form, dtype, target):
    """Killed when chunks of a third unit are written, which is not marked."""
    make_small(monkeypatch, 6_000)
    path = entry_in(caches[form])

    def make(root):
        plan = plan_conversion(path, dtype=dtype, root=root) if dtype else EntryCopy.of(path, root)
        return plan.apply()

    call = 3 if target == "damaged_chunks" else 40
    kill_at(f"probekit.store.codec.{target}", call, lambda: make(tmp_path / "killed"))
    (begun,) = list_entries(tmp_path / "killed")
    assert not begun.complete and len(list(begun.path.glob("building/units/*.json"))) > 1
    whole = make(tmp_path / "whole") if dtype else Entry.open(path)
    assert folder_bytes(make(tmp_path / "killed").path) == folder_bytes(whole.path)
