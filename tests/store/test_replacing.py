"""A reader finds the old entry or the new one, whenever it looks while one replaces the other."""

import shutil
import threading
from pathlib import Path

import pytest

from probekit.errors import EntryError
from probekit.store import lock
from probekit.store.entry import Entry, list_entries
from probekit.store.find import Wanted, find_entries
from probekit.store.layout import entry_folder
from probekit.store.manifest import read_manifest, read_standing
from tests.store import synthetic

WANTED = Wanted(model="tiny", task="demo", slug="demo")


@pytest.fixture(params=[("zarr", True), ("hdf5", False)], ids=str)
def renames(request, monkeypatch):
    """A backend, and whether two folders are exchanged: not every file system does that."""
    if not request.param[1]:
        monkeypatch.setattr(lock, "_exchange", lambda one, other: False)
    return request.param


@pytest.fixture
def backend(renames):
    return renames[0]


def place(root, backend):
    key = synthetic.manifest(backend, "float16").key
    return entry_folder(root, "tiny", "demo", "train", key)


def test_between_the_two_renames(tmp_path, backend):
    """The old entry is moved away, the new one is still where it was built."""
    path = place(tmp_path, backend)
    old = synthetic.build(path, backend, "float16")
    shutil.copytree(path, f"{path}.partial")
    path.rename(f"{path}.replaced")
    assert Entry.open(path).manifest == read_manifest(path) == old.manifest
    found = find_entries(tmp_path, WANTED, "train")
    assert found.arrays["words"].read(slice(0, 3)).shape == (3, 4, synthetic.DIM)
    assert [(e.path.name, e.complete) for e in list_entries(tmp_path)] == [
        (path.name, True),
        (f"{path.name}.partial", False),
    ]
    assert list_entries(tmp_path)[0].nbytes > 10_000
    path.with_name(f"{path.name}.partial").rename(path)
    assert [e.path for e in list_entries(tmp_path)] == [path], "the old one is none any more"
    path.rename(f"{path}.partial")
    with pytest.raises(EntryError, match="is complete"):  # whoever writes puts it back
        synthetic.build(path, backend, "float16")
    assert path.is_dir() and not Path(f"{path}.replaced").exists()


def test_at_every_step(tmp_path, backend, monkeypatch):
    path = place(tmp_path, backend)
    old = synthetic.build(path, backend, "float16")
    seen = []

    def look(step):
        def looking(*arguments, **options):
            seen.append(find_entries(tmp_path, WANTED, "train").manifest == old.manifest)
            result = step(*arguments, **options)
            seen.append(find_entries(tmp_path, WANTED, "train").manifest == old.manifest)
            return result

        return looking

    monkeypatch.setattr("pathlib.Path.rename", look(lock.Path.rename))
    monkeypatch.setattr(lock, "_exchange", look(lock._exchange))
    monkeypatch.setattr("shutil.rmtree", look(shutil.rmtree))
    synthetic.build(path, backend, "float16", overwrite=True)
    assert len(seen) >= 6 and all(seen)


def test_another_entry_that_comes_while_one_is_read(tmp_path, backend):
    """The manifest of one and the arrays of the other do not fit: it is read again."""
    path, other = tmp_path / "train-00000000", tmp_path / "new-00000000"
    synthetic.build(path, backend, "float16")
    synthetic.build(other, backend, "float32")
    calls = []

    def read(folder):
        manifest = Entry._open(folder).manifest
        calls.append(manifest.dtype)
        if len(calls) == 1:
            lock.install(other, path)
            raise EntryError("of two entries")
        return manifest.dtype

    assert read_standing(path, read) == "float32"
    assert calls == ["float16", "float32"]


def test_readers_beside_a_writer(tmp_path, backend, renames):
    path = place(tmp_path, backend)
    synthetic.build(path, backend, "float16")
    stop, failed = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                entry = Entry.open(path)
                if renames[1]:  # what is mapped after opening is where it was
                    entry.arrays["words"].read(slice(0, 1))
            except Exception as error:
                failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(3):
        synthetic.build(path, backend, "float16", overwrite=True)
    stop.set()
    for reader in readers:
        reader.join()
    assert failed == []
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name, f"{path.name}.lock"]
