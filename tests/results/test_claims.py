"""Claims: exclusive, let go of when their owner is gone, and never in the records file."""

import json
import os
import signal
import time
from dataclasses import asdict, replace

import pytest

from probekit.results import append_record, load_records
from probekit.results import claims as claims_module
from probekit.results.claims import SNAPSHOT, Claims, Owner, owners, run_file, tidy, wait_for_change
from tests.results.samples import make_record

KEYS = ["a" * 64, "b" * 64]


def claim_of(out, owner, key=KEYS[0], age=0.0):
    """Leave a claim of somebody else beside the records, as old as it is said to be."""
    path = run_file(out, key)
    path.write_text(json.dumps(asdict(owner)))
    os.utime(path, (time.time() - age,) * 2)
    return path


@pytest.fixture
def out(tmp_path):
    return tmp_path / "runs.jsonl"


def test_only_one_owner_has_a_run(out):
    with Claims(out) as one, Claims(out) as two:
        assert one.take(KEYS[:1]) == set(KEYS[:1])
        assert two.take(KEYS) == set(KEYS[1:])
        assert one.take(KEYS) == set()
        assert set(owners(out, KEYS)) == set(KEYS)
        one.release(KEYS)
        assert two.take(KEYS) == set(KEYS[:1])
    assert owners(out, KEYS) == {}
    assert [path.name for path in out.parent.iterdir()] == ["runs.jsonl.lock"]


def test_a_record_ends_the_claim(out):
    with Claims(out) as claims:
        claims.take(KEYS)
        assert claims.record(make_record(key=KEYS[0]))
        assert set(owners(out, KEYS)) == {KEYS[1]}
    assert [record.key for record in load_records(out)] == KEYS[:1]


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_what_a_killed_process_had_claimed_is_free(out):
    if (killed := os.fork()) == 0:
        with Claims(out) as claims:
            claims.take(KEYS)
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    assert run_file(out, KEYS[0]).exists(), "a zombie as yet"
    assert owners(out, KEYS) == {}
    os.waitpid(killed, 0)
    assert owners(out, KEYS) == {}
    with Claims(out) as claims:
        assert claims.take(KEYS) == set(KEYS)


@pytest.mark.parametrize(
    ("change", "age", "free"),
    [
        ({"machine": "elsewhere"}, 0, False),
        ({"machine": "elsewhere"}, 2 * claims_module.SILENT_SECONDS, True),
        ({}, 2 * claims_module.SILENT_SECONDS, True),  # asleep
        ({"machine": "elsewhere"}, -2 * claims_module.SILENT_SECONDS, True),  # another clock
        ({}, 0, False),
        ({"started": 1.0}, 0, True),  # another process that has its id now
        ({"pid": 2**22 + 1}, 0, True),
    ],
)
def test_when_a_claim_counts(out, change, age, free):
    claim_of(out, replace(Owner.here(), **change), age=age)
    with Claims(out) as claims:
        assert claims.take(KEYS) == set(KEYS if free else KEYS[1:])


def test_the_next_process_removes_what_lost_ones_left(out):
    append_record(out, make_record(key=KEYS[1]))
    theirs = [claim_of(out, Owner.here(), "c" * 64), run_file(out, "d" * 64, SNAPSHOT)]
    names = (f"{out.name}.notes.claim", f"x{out.name}.{'b' * 16}.claim")
    theirs += [out.with_name(name) for name in names]
    for path in theirs[1:]:
        path.touch()
    left = [claim_of(out, replace(Owner.here(), started=1.0)), run_file(out, KEYS[1], SNAPSHOT)]
    left[1].touch()
    with Claims(out):
        assert [path.exists() for path in left] == [False, False]
        assert all(path.exists() for path in theirs)


def test_a_claim_that_is_torn_is_none(out):
    run_file(out, KEYS[0]).write_text('{"host": "a')
    with Claims(out) as claims:
        assert claims.take(KEYS[:1]) == set(KEYS[:1])


def test_an_owner_that_slept_does_not_record_a_run_again(out, caplog):
    with Claims(out) as slept, Claims(out) as other:
        slept.take(KEYS)
        os.utime(run_file(out, KEYS[0]), (0, 0))
        assert other.take(KEYS) == {KEYS[0]}
        assert not slept.record(make_record(key=KEYS[0]))
        assert "another one has taken over the run" in caplog.text
        assert other.record(make_record(key=KEYS[0]))
    assert len(out.read_text().splitlines()) == 1


def test_who_goes_on_with_the_work_of_a_lost_owner_has_its_claims(out):
    """Its machine cannot be looked up, and it has not been silent for long; its name is known."""
    lost = replace(Owner.here("sweep"), machine="elsewhere")
    path = claim_of(out, lost)
    with Claims(out) as other, Claims(out, "another sweep") as another:
        assert other.take(KEYS[:1]) == another.take(KEYS[:1]) == set()
    with Claims(out, "sweep") as claims:
        assert claims.take(KEYS[:1]) == {KEYS[0]}
        assert claims.record(make_record(key=KEYS[0])) and not path.exists()


def test_the_heart_beats_while_the_context_is_open(out, monkeypatch):
    monkeypatch.setattr(claims_module, "BEAT_SECONDS", 0.02)
    with Claims(out) as claims:
        claims.take(KEYS[:1])
        path = run_file(out, KEYS[0])
        os.utime(path, (0, 0))
        end = time.monotonic() + 30
        while path.stat().st_mtime == 0 and time.monotonic() < end:
            time.sleep(0.01)
        assert path.stat().st_mtime > 0


def test_waiting_ends_with_the_first_claim_that_changes(out, monkeypatch):
    monkeypatch.setattr(claims_module, "POLL_SECONDS", 0.01)
    with Claims(out) as one:
        one.take(KEYS)
        seen, polls = owners(out, KEYS), []

        def poll(seconds):
            polls.append(seconds)
            if len(polls) == 3:
                one.release(KEYS[:1])

        monkeypatch.setattr(claims_module.time, "sleep", poll)
        wait_for_change(out, seen)
        assert len(polls) == 3


def test_where_nothing_is_recorded_nothing_is_tidied(tmp_path):
    tidy(tmp_path / "records.jsonl")
    assert list(tmp_path.iterdir()) == []
