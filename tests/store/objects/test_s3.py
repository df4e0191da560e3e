"""A cache in a bucket over HTTP: requests that fail, processes that die, and what a layer costs."""

import multiprocessing
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from probekit.errors import StorageError
from probekit.extraction import ExtractOptions, extract, plan, units
from probekit.extraction.maintenance import check_chunks, copy_entries, list_cache
from probekit.features import Location
from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry, list_entries
from probekit.store.objects.mirror import Mirror
from probekit.store.objects.object_path import root_of
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests import tiny
from tests.extraction.corpus import write_corpus
from tests.extraction.extracted import finishing_at_once, interrupted_after
from tests.extraction.killed import run as run_killed
from tests.s3_server import Faults


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return str(write_corpus(tmp_path_factory.mktemp("corpus"), sentences=30))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return str(tiny.build("bert", tmp_path_factory.mktemp("bert")))


@pytest.fixture
def small_units(monkeypatch):
    monkeypatch.setattr(units, "UNIT_BYTES", 30_000)
    monkeypatch.setattr(plan, "chunk_rows_for", lambda dim, dtype, rows: 32)


def run(bert, corpus, cache, shard=None, splits=("train",), **options):
    return extract(
        bert, corpus, kind="tagging", label="2", splits=splits, cache=cache, device="cpu",
        options=ExtractOptions(compute_dtype="float32", batch_tokens=64, **options), shard=shard,
    )  # fmt: skip


def files(entry):
    """Every file of an entry but its manifest, by name."""
    folder = entry.folder
    if entry.folder == entry.path:
        names = [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()]
    else:
        names = list(folder.below())
    return {name: (folder / name).read_bytes() for name in names if name != "manifest.json"}


def test_a_bucket_that_fails(server, s3, bert, corpus, tmp_path, small_units):
    """Extracted, trained from and verified, while requests fail: the bytes of a folder."""
    server.faults = Faults(1, failed=0.08, dropped=0.03, slow=0.05, seconds=0.01)
    there = run(bert, corpus, str(s3), splits=("train", "dev"))
    here = run(bert, corpus, tmp_path / "cache", splits=("train", "dev"))
    for one, other in zip(there, here, strict=True):
        assert files(one) == files(other)
        assert check_chunks(one.path) == check_chunks(other.path)
    spec = TrainSpec(model=bert, task=corpus, label="2", head="last")
    own = {"kind": "tagging"}
    scores = [
        sweep(
            [spec],
            out=tmp_path / f"{name}.jsonl",
            location=Location(cache=cache, mirror=mirror, **own),
            device="cpu",
        )[0]
        for name, cache, mirror in (
            ("there", str(s3), None),
            ("mirror", str(s3), Mirror(tmp_path / "mirror")),
            ("here", tmp_path / "cache", None),
        )
    ]
    assert scores[0].scores == scores[1].scores == scores[2].scores
    assert min(server.faults.met.values()) > 0, "it did fail"
    server.faults = None
    assert [row["state"] for row in list_cache(s3)] == ["complete"] * 2, "nothing is left over"


def test_one_layer_costs_one_layer(server, s3, bert, corpus, small_units):
    (entry,) = run(bert, corpus, str(s3))
    array = Entry.open(entry.path).arrays["words"]
    server.sent.clear()
    array.prefetch(torch.arange(array.rows).numpy(), [2])
    array.read(slice(None), [2])
    sent = {path: size for path, size in server.sent.items() if "/c." in path}
    assert sum(sent.values()) <= 1.1 * array.spec.nbytes / len(array.layers)
    assert all(path.split(".")[-2] == "2" for path in sent)


def test_copied_there_and_back(s3, bert, corpus, tmp_path, small_units):
    (first,) = run(bert, corpus, tmp_path / "cache")
    ((there, _),) = copy_entries([first.path], s3)
    ((_, known),) = copy_entries([first.path], s3)
    ((back, _),) = copy_entries([there.destination.path], tmp_path / "back")
    assert known
    assert files(Entry.open(back.destination.path)) == files(first)
    copied = Entry.open(there.destination.path)
    assert (copied.folder / "manifest.json").read_bytes() == (
        first.path / "manifest.json"
    ).read_bytes()


def test_no_such_bucket(s3, bert, corpus):
    missing = f"s3://{s3.parts[1]}-missing/cache"
    with pytest.raises(StorageError, match=f"s3://{s3.parts[1]}-missing: there is no such bucket"):
        run(bert, corpus, missing)
    with pytest.raises(StorageError, match="there is no such bucket"):
        list_cache(root_of(missing))


def test_credentials_that_are_refused(server, s3, bert, corpus):
    server.refuses = True
    with pytest.raises(StorageError, match=r"refused .*set AWS_ACCESS_KEY_ID"):
        run(bert, corpus, str(s3))


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.extraction.killed"])
    return context


def kill_when(child, root, marks):
    """Kill a process when so many units are marked; say whether it was still at work."""
    while child.is_alive() and len(list(root.glob("*/*/*.partial/building/units/*"))) < marks:
        time.sleep(0.01)
    alive = child.is_alive()
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    return alive


def test_interrupted_and_resumed(s3, bert, corpus, tmp_path, small_units, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(EntryBuilder, "write_unit", interrupted_after(1))
        with pytest.raises(KeyboardInterrupt):
            run(bert, corpus, str(s3))
    (begun,) = list_entries(s3)
    assert not begun.complete
    (there,) = run(bert, corpus, str(s3))
    (here,) = run(bert, corpus, tmp_path / "cache")
    assert files(there) == files(here)


@pytest.mark.slow
@pytest.mark.parametrize("faults", [None, Faults(5)], ids=["well", "failing"])
def test_killed_and_resumed(server, s3, bert, corpus, tmp_path, processes, faults):
    run_killed(bert, corpus, tmp_path / "cache", "zarr")
    (whole,) = list_entries(tmp_path / "cache")
    for marks in (2,) if faults is None else (1, 3):
        server.faults = faults
        child = processes.Process(target=run_killed, args=(bert, corpus, str(s3), "zarr"))
        child.start()
        assert kill_when(child, s3, marks)
    server.faults = faults
    run_killed(bert, corpus, str(s3), "zarr")
    server.faults = None
    (entry,) = list_entries(s3)
    assert entry.complete
    assert files(Entry.open(entry.path)) == files(Entry.open(whole.path))
    check_chunks(entry.path)


@pytest.mark.parametrize("turns", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_shards_that_finish_at_once_seal_once(server, s3, bert, corpus, monkeypatch, turns):
    sealed = finishing_at_once(monkeypatch)
    monkeypatch.setattr(units, "UNIT_BYTES", 40_000)
    monkeypatch.setattr(plan, "chunk_rows_for", lambda dim, dtype, rows: 16)
    for turn in range(turns):
        cache = s3 / str(turn)
        with ThreadPoolExecutor(2) as pool:
            shards = [pool.submit(run, bert, corpus, str(cache), f"{i}/2") for i in (1, 2)]
            found = [shard.result() for shard in shards]
        assert len(sealed) == turn + 1
        assert len(found[0] + found[1]) == 2, "both see the entry: each came after the last unit"
        (entry,) = list_entries(cache)
        check_chunks(entry.path)
