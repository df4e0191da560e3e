"""Pulls and pushes that are killed, or broken off, go on where they were."""

import multiprocessing
import os
import signal
import time

import pytest

from probekit.errors import EntryError, HubError
from probekit.extraction.maintenance import check_chunks
from probekit.extraction.transport import Pull, Push, transport_form
from probekit.extraction.transport.remote_files import RemoteFiles
from probekit.store.entry import Entry
from tests.extraction.transport import killed
from tests.extraction.transport.conftest import REPO, stored
from tests.extraction.transport.test_round_trip import features
from tests.store.synthetic import folder_bytes


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.extraction.transport.killed"])
    return context


@pytest.fixture
def small_files(monkeypatch):
    monkeypatch.setattr(transport_form, "FILE_BYTES", 1)


def kill_when(child, reached):
    """Kill a child process at the moment at which something is reached."""
    child.start()
    while child.is_alive() and not reached():
        time.sleep(0.001)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert child.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("backend", ["zarr", pytest.param("hdf5", marks=pytest.mark.slow)])
def test_a_pull_that_is_killed_goes_on(hub, tmp_path, cache, processes, small_files, backend):
    entry = stored(tmp_path / "cache", backend)
    Push.of([entry.path], REPO).apply()
    child = processes.Process(target=killed.pull, args=(hub.url, tmp_path / "other", cache))
    kill_when(child, lambda: len(list(cache.glob("*/*/*.partial/building/units/*.json"))) > 9)
    assert not list(cache.glob("*/*/train-????????")), "absent until it is whole"
    (begun,) = cache.glob("*/*/*.partial")
    with pytest.raises(EntryError, match=r"is unfinished\. Run the same `probekit cache pull`"):
        Entry.open(begun)
    done = set(features(hub))
    hub.sent.clear()
    (pulled,) = Pull.of(REPO, cache).apply()
    assert folder_bytes(pulled.path) == folder_bytes(entry.path)
    assert len(done & set(features(hub))) <= 1, "but for the file that it was at"
    assert len(done | set(features(hub))) == 44


def test_a_push_that_is_killed_goes_on(hub, tmp_path, cache, processes, small_files, repo):
    entry = stored(tmp_path / "cache")
    sent = hub.uploads.received
    arguments = (hub.url, tmp_path / "other", entry.path)
    kill_when(processes.Process(target=killed.push, args=arguments), lambda: len(sent) > 20)
    assert [file.name for file in repo.iterdir()] == [".gitattributes"], "nothing is seen of it"
    Push.of([entry.path], REPO).apply()
    oids = [oid for oid, _ in sent]
    assert len(oids) - len(set(oids)) <= 1, "but for the file that it was at"
    (pulled,) = Pull.of(REPO, cache).apply()
    assert folder_bytes(pulled.path) == folder_bytes(entry.path)


def test_the_same_push_again_sends_and_changes_nothing(hub, tmp_path, repo):
    entry = stored(tmp_path / "cache")
    Push.of([entry.path], REPO).apply()
    before, sent = folder_bytes(repo), len(hub.uploads.received)
    Push.of([entry.path], REPO).apply()
    assert folder_bytes(repo) == before and len(hub.uploads.received) == sent


def test_a_download_that_breaks_off_goes_on(hub, tmp_path, cache):
    entry = stored(tmp_path / "cache")
    Push.of([entry.path], REPO).apply()
    (file,) = (name for name in RemoteFiles.find(REPO).sizes if "words/layer-002" in name)
    hub.drops[f"datasets/{REPO}/{file}"] = 2
    (pulled,) = Pull.of(REPO, cache).apply()
    assert folder_bytes(pulled.path) == folder_bytes(entry.path)


def test_a_hub_that_fails_in_the_middle(hub, tmp_path, cache, monkeypatch):
    entry = stored(tmp_path / "cache")
    Push.of([entry.path], REPO).apply()
    fetch, count = RemoteFiles.fetch, 0

    def fail(self, name, folder, report=lambda count: None):
        nonlocal count
        count += "/features/" in name
        if "/features/" in name and count == 3:
            hub.faults[f"datasets/{REPO}"] = "gated-401"
        return fetch(self, name, folder, report)

    monkeypatch.setattr(RemoteFiles, "fetch", fail)
    with pytest.raises(HubError, match="is gated"):
        Pull.of(REPO, cache).apply()
    del hub.faults[f"datasets/{REPO}"]
    hub.sent.clear()
    (pulled,) = Pull.of(REPO, cache).apply()
    assert folder_bytes(pulled.path) == folder_bytes(entry.path)
    assert len(features(hub)) == 3, "two of five were there"


def test_a_file_that_is_damaged_is_loaded_again(hub, tmp_path, cache, repo):
    entry = stored(tmp_path / "cache", "hdf5", "int8")
    Push.of([entry.path], REPO).apply()
    (file,) = repo.rglob("words/layer-002-000.bin")
    good = file.read_bytes()
    file.write_bytes(good[:1500] + bytes([good[1500] ^ 1]) + good[1501:])
    with pytest.raises(EntryError, match=r"layer-002-000\.bin is damaged at byte \d+: expected"):
        Pull.of(REPO, cache).apply()
    assert not list(cache.glob("*/*/train-????????"))
    file.write_bytes(good)
    hub.sent.clear()
    (pulled,) = Pull.of(REPO, cache).apply()
    assert check_chunks(pulled.path) > 0
    assert folder_bytes(pulled.path) == folder_bytes(entry.path)
    assert "words/layer-001-000.bin" not in features(hub)
