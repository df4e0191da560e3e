"""Several processes on one records file: every run is trained by one of them, and recorded once."""

import os
import signal
import threading
import time

import pytest

from probekit.features import Location
from probekit.results import claims as claims_module
from probekit.results import load_records
from probekit.results.claims import Claims
from probekit.train.sweeps import run, worker
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import product
from tests.forks import Forked
from tests.planted import MODEL, TASK, plant_all
from tests.train.sweeps.samples import spec

WORDS = ("sweep", MODEL, TASK, "--label", "ner", "--head", "last,mean", "--shots", "4")
N_RUNS = 8


@pytest.fixture
def here(tmp_path):
    plant_all(tmp_path / "cache")
    return tmp_path


@pytest.fixture
def start(here, monkeypatch):
    """Start a sweep in groups of one run (of many, with more memory), which notes its runs."""

    def start_noting(name, *, die_at=0, memory=1000):
        fit, groups = worker.fit_runs, []

        def noted(runs, *given, **options):
            groups.append(runs)
            with open(name, "a") as file:
                file.writelines(f"{run.options.key}\n" for run in runs)
            if len(groups) == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return fit(runs, *given, **options)

        with monkeypatch.context() as patch:
            patch.setattr(worker, "fit_runs", noted)
            patch.setattr(run, "default_memory", lambda device: memory)
            return Forked.typed(here, *WORDS, "--seeds", "4", "--out", "r.jsonl", "--json")

    return start_noting


def trained(here, *names):
    """The keys of the runs that processes began to train."""
    files = [here / name for name in names]
    return [key for file in files if file.exists() for key in file.read_text().split()]


def recorded(here):
    """The keys in the records file, each line of which must be a record."""
    assert len(load_records(here / "r.jsonl")) == N_RUNS
    return [record.key for record in load_records(here / "r.jsonl")]


def test_processes_share_the_runs_and_take_over_those_of_a_killed_one(here, start):
    """One of them in groups of many runs."""
    killed = start("a", die_at=3)
    killed.wait()
    assert killed.code == -signal.SIGKILL
    (left,) = here.glob("r.jsonl.*.claim")
    assert len((here / "r.jsonl").read_text().splitlines()) == 2
    begun = trained(here, "a")
    assert left.name.split(".")[2] == begun[2][:16]
    processes = [start("b"), start("c", memory=10**9)]
    printed = [process.said() for process in processes]
    assert [process.code for process in processes] == [0, 0], printed
    said = "".join(err for _, err in printed)
    assert f"process {killed.pid} on " in said and "taken over" in said
    assert sorted([*begun[:2], *trained(here, "b", "c")]) == sorted(recorded(here))
    assert len((here / "r.jsonl").read_text().splitlines()) == N_RUNS
    tables = {out for out, _ in printed}
    assert len(tables) == 1 and len(tables.pop().splitlines()) == N_RUNS
    assert not list(here.glob("*.claim"))


def test_runs_of_others_are_waited_for(here, caplog, monkeypatch):
    """What is trained elsewhere is not trained here, but in the result all the same."""
    caplog.set_level("INFO", "probekit")
    monkeypatch.setattr(claims_module, "POLL_SECONDS", 0.01)
    where, plan = Location(cache=here / "cache"), product(spec(shots=4), {"seeds": 3})
    elsewhere = {r.key: r for r in sweep(plan, out=here / "elsewhere.jsonl", location=where)}
    caplog.clear()
    first, second, third = elsewhere
    with Claims(here / "r.jsonl") as other:
        other.take([first, second])

        def end():
            while not any("are being trained" in one.getMessage() for one in caplog.records):
                time.sleep(0.01)
            other.record(elsewhere[first])
            other.release([second])  # without a record: its owner was interrupted

        thread = threading.Thread(target=end, daemon=True)
        thread.start()
        records = sweep(plan, out=here / "r.jsonl", location=where)
        thread.join(60)
    assert [record.key for record in records] == [first, second, third]
    assert records[0] == elsewhere[first]
    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith("[1/1] last, seed 2: ") and said[2].startswith("[1/1] last, seed 1: ")
    assert f"the last 2 runs are being trained by process {os.getpid()}" in said[1]
    assert len((here / "r.jsonl").read_text().splitlines()) == 3
