"""Locks in an object store: who holds one, who has died, and who may write no more."""

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from probekit.errors import EntryLockedError, StorageError
from probekit.store.lock import EntryLock, check_unlocked
from probekit.store.objects import lease
from probekit.store.objects.lease import Lease, read_lease


@pytest.fixture
def place(memory):
    return memory / "x.lock"


def written(place, **told):
    """A lock that somebody left."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    known = {"host": "elsewhere", "pid": 1, "started": now, "renewed": now, "within": "elsewhere"}
    place.write_bytes(json.dumps(known | told).encode())


def test_held_by_one(place):
    first, second = Lease(place, "x"), Lease(place, "x")
    first.acquire()
    with pytest.raises(EntryLockedError, match=f"x is being written by process {os.getpid()} on"):
        second.acquire()
    second.release()
    first.check()
    first.release()
    first.release()
    assert not place.exists()
    second.acquire("1-of-2")
    assert not second.held_alone
    second.release()


def test_a_process_of_this_machine_that_died(place):
    child = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    written(place, pid=int(child.stdout), within=lease._machine())
    one = Lease(place, "x")
    one.acquire()
    assert read_lease(place)[0]["pid"] == os.getpid()
    one.release()


def test_one_of_another_machine(place, monkeypatch):
    monkeypatch.setattr(lease, "_WATCHED_EVERY", 0.01)
    written(place)
    with pytest.raises(EntryLockedError, match="process 1 on elsewhere"):
        Lease(place, "x").acquire()
    monkeypatch.setattr(lease, "_EXPIRED", 0.2)
    before = datetime.now(UTC) - timedelta(hours=1)
    written(place, renewed=before.isoformat())
    start = time.monotonic()
    one = Lease(place, "x")
    one.acquire()
    assert time.monotonic() - start > 0.2, "it is watched first, since clocks differ"
    one.release()


def test_a_clock_that_is_behind_loses_no_lock(place, monkeypatch):
    """The holder lives, and only its clock is wrong."""
    monkeypatch.setattr(lease, "_WATCHED_EVERY", 0.01)
    monkeypatch.setattr(lease, "_EXPIRED", 0.5)
    monkeypatch.setattr(lease, "_RENEWED_EVERY", 0.05)
    holder = Lease(place, "x")
    holder.acquire()
    put = holder._put
    old = {"renewed": "2020-01-01T00:00:00+00:00", "within": "elsewhere"}

    def behind(tag):
        put(tag)
        told = json.loads(place.read_bytes())
        holder._tag = place.bucket.put_if(
            place.key, json.dumps(told | old).encode(), dict(holder._tag)
        )

    holder._put = behind
    time.sleep(0.2)
    with pytest.raises(EntryLockedError):
        Lease(place, "x").acquire()
    holder._put = put
    holder.release()


def test_renewed_while_it_is_held(place, monkeypatch):
    monkeypatch.setattr(lease, "_RENEWED_EVERY", 0.01)
    one = Lease(place, "x")
    one.acquire()
    tag = read_lease(place)[1]
    time.sleep(0.2)
    assert read_lease(place)[1] != tag
    one.release()
    assert not place.exists()


def test_taken_over_it_writes_no_more(place, monkeypatch):
    monkeypatch.setattr(lease, "_RENEWED_EVERY", 0.01)
    one = Lease(place, "x")
    one.acquire()
    written(place)
    time.sleep(0.2)
    with pytest.raises(StorageError, match="could not be renewed"):
        one.check()
    one.release()
    assert read_lease(place)[0]["host"] == "elsewhere", "what another holds stays"


def test_what_is_no_lock_is_watched_like_one(place, monkeypatch):
    monkeypatch.setattr(lease, "_WATCHED_EVERY", 0.01)
    monkeypatch.setattr(lease, "_EXPIRED", 0.2)
    place.write_bytes(b"{")
    start = time.monotonic()
    one = Lease(place, "x")
    one.acquire()
    assert time.monotonic() - start > 0.2
    one.release()


def test_of_an_entry(memory):
    entry = memory / "m/t/train-00000000"
    check_unlocked(entry)
    with EntryLock(entry):
        with pytest.raises(EntryLockedError):
            check_unlocked(entry)
        with pytest.raises(EntryLockedError):
            EntryLock(entry)
    check_unlocked(entry)
