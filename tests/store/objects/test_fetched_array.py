"""Rows that are fetched: the same as of a folder, whatever room there is, and never zeros."""

import os
import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from probekit.errors import EntryError, StorageError
from probekit.store.arrays import FEATURE_DTYPES
from probekit.store.entry import Entry
from probekit.store.objects import fetched_array
from probekit.store.objects import mirror as mirror_module
from probekit.store.objects.mirror import Mirror, chunk_files
from probekit.store.objects.object_path import root_of
from tests.store import synthetic

_names = count()


@pytest.fixture(scope="module", params=FEATURE_DTYPES)
def both(request, tmp_path_factory):
    """An entry in memory and the same in a folder."""
    root = root_of(f"memory://fetched{next(_names)}")
    there = synthetic.build(root / "train-00000000", "zarr", request.param)
    folder = tmp_path_factory.mktemp("folder") / "train-00000000"
    return there.path, synthetic.build(folder, "zarr", request.param)


@pytest.fixture
def asked(monkeypatch):
    """The chunks that are asked for."""
    found, read = [], fetched_array.read_span

    def counted(file, start, nbytes):
        found.append((file, start))
        return read(file, start, nbytes)

    monkeypatch.setattr(fetched_array, "read_span", counted)
    return found


@pytest.fixture(params=["memory", "little memory", "mirror", "small mirror"])
def kept(request, tmp_path, monkeypatch):
    """Where chunks are kept."""
    if request.param == "little memory":
        monkeypatch.setattr(fetched_array, "_MOST_MEMORY", 4000)
    mirrors = {"mirror": Mirror(tmp_path / "m"), "small mirror": Mirror(tmp_path / "m", 9000)}
    return mirrors.get(request.param)


def test_rows_are_those_of_a_folder(both, kept):
    there, here = Entry.open(both[0], kept), both[1]
    rng = np.random.default_rng(0)
    for name in ("words", "tokens"):
        one, other = there.arrays[name], here.arrays[name]
        assert torch.equal(one.read(slice(None)), other.read(slice(None)))
        assert torch.equal(one.read(slice(5, 90)), other.read(slice(5, 90)))
        assert torch.equal(one.read([]), other.read([]))
        for size in (1, 7, 60):
            rows = rng.integers(0, one.rows, size)
            one.prefetch(rows)
            assert torch.equal(one.read(rows), other.read(rows))
            layers = list(one.layers[::-1][:2])
            assert torch.equal(one.read(rows, layers), other.read(rows, layers))
        again = pickle.loads(pickle.dumps(one))
        assert torch.equal(again.read([3, 1]), other.read([3, 1]))


def test_rows_of_many_threads(both, kept):
    there, here = Entry.open(both[0], kept), both[1]
    one, other = there.arrays["words"], here.arrays["words"]

    def read(seed):
        rows = np.random.default_rng(seed).integers(0, one.rows, 20)
        one.prefetch(np.sort(rows[:5]))
        return torch.equal(one.read(rows), other.read(rows))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(24)))


def test_one_layer_costs_one_layer(both, asked):
    one = Entry.open(both[0]).arrays["words"]
    one.read(slice(None), [2])
    one.read(slice(None), [2])
    per_chunk = 3 if one.spec.dtype == "int8" else 1
    assert len(asked) == len(set(asked)) == one.spec.n_row_chunks * per_chunk


def test_a_mirror_is_read_again(both, asked, tmp_path):
    mirror = Mirror(tmp_path / "mirror", 10_000_000)  # however full this disk is
    rows = Entry.open(both[0], mirror).arrays["words"].read(slice(None))
    assert asked
    asked.clear()
    assert torch.equal(Entry.open(both[0], mirror).arrays["words"].read(slice(None)), rows)
    assert not asked


def test_a_mirror_is_bounded(both, tmp_path):
    mirror = Mirror(tmp_path / "mirror", 5000)
    array = Entry.open(both[0], mirror).arrays["words"]
    for _ in range(2):
        array.read(slice(None))
        held = sum(size for _, size, _ in chunk_files(mirror.folder))
        assert held <= 5000 + 17 * array.spec.plain()[0].chunk_nbytes, "what is on its way is more"


@pytest.mark.parametrize("free", [0.05, 0.5])
def test_a_mirror_on_a_full_disk_says_so(both, tmp_path, monkeypatch, caplog, free):
    disk = SimpleNamespace(total=10**9, free=int(10**9 * free))
    monkeypatch.setattr(mirror_module.shutil, "disk_usage", lambda folder: disk)
    folder = tmp_path / "mirror"
    Entry.open(both[0], Mirror(folder)).arrays["words"].read(slice(None))
    said = f"--mirror {folder} keeps nothing: less than a tenth of its disk is free."
    assert (said in caplog.text) == (free < 0.1)


def test_a_mirror_that_is_a_file(both, tmp_path):
    (tmp_path / "m").touch()
    with pytest.raises(StorageError, match=r"cannot write to .*another folder with --mirror DIR"):
        Entry.open(both[0], Mirror(tmp_path / "m")).arrays["words"].read(slice(None))


@pytest.mark.parametrize("name", ["photos", "0123456789abcdef"])
def test_a_mirror_removes_nothing_of_others(both, tmp_path, name):
    others = [tmp_path / name / "old.txt", tmp_path / name / "url.txt", tmp_path / ".lock"]
    others[0].parent.mkdir()
    for file in others:
        file.write_bytes(b"of somebody" * 999)
        os.utime(file, (0, 0))
    Entry.open(both[0], Mirror(tmp_path, 5000)).arrays["words"].read(slice(None))
    assert all(file.stat().st_size == 10989 for file in others) and chunk_files(tmp_path)


@pytest.mark.parametrize("damage", ["zeros", "short", "gone"])
def test_a_damaged_mirror_is_fetched_anew(both, tmp_path, damage):
    mirror = Mirror(tmp_path / "mirror", 10_000_000)  # however full this disk is
    rows = Entry.open(both[0], mirror).arrays["words"].read(slice(None))
    for file in (tmp_path / "mirror").glob("*/words/*"):
        size = file.stat().st_size
        file.unlink() if damage == "gone" else file.write_bytes(bytes(size - (damage == "short")))
    assert torch.equal(Entry.open(both[0], mirror).arrays["words"].read(slice(None)), rows)


def test_what_is_mapped_stays(both, tmp_path):
    """Another process makes room in the mirror."""
    array = Entry.open(both[0], Mirror(tmp_path / "mirror")).arrays["words"]
    rows = array.read(slice(None))
    for file in (tmp_path / "mirror").glob("*/*/*"):
        file.unlink()
    assert torch.equal(array.read(slice(None)), rows)


def test_a_damaged_chunk_is_not_given_out(both, memory):
    folder = memory / "train-00000000"
    entry = synthetic.build(folder, "zarr", "float16")
    file = entry.folder / "features.zarr/words/c.1.0.0"
    file.write_bytes(bytes(len(file.read_bytes())))
    array = Entry.open(folder).arrays["words"]
    for _ in range(2):
        with pytest.raises(EntryError, match=r"row chunk 1, layer index 0\) is another one"):
            array.read([16])
    array.read([0])


def test_it_is_tried_again(both, monkeypatch):
    array = Entry.open(both[0]).arrays["tokens"]
    answers = iter([b"", b"x"])
    monkeypatch.setattr(
        fetched_array, "read_span", lambda *given: next(answers, None) or _span(*given)
    )
    assert torch.equal(array.read([0]), both[1].arrays["tokens"].read([0]))


def _span(file, start, nbytes):
    place = root_of(file)
    return place.bucket.read_span(place.key, start, nbytes)


def test_what_is_not_there_stops_the_process():
    """Not zeros: a mistake in what is fetched must not go unseen."""
    program = """
    import torch
    from probekit.store.arrays import PlainArray
    from probekit.store.mapping import ChunkRoom

    room = ChunkRoom(PlainArray("x", (32, 2, 4), (16, 1, 4), "float16"), torch.float16)
    room.put((1, 0), b"\\x01" * 128)
    row = int(room.mapped.row_starts[0, 1])
    print(room.mapped.elements.view(-1, 4)[row].view(torch.int16).tolist(), flush=True)
    room.drop((1, 0))
    print(room.mapped.elements.view(-1, 4)[row].tolist(), flush=True)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
    )
    assert run.stdout == "[257, 257, 257, 257]\n" and run.returncode < 0
