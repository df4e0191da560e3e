"""Runs that train the model and are killed go on where they were, to the same record."""

import os
import signal
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from probekit.features import Location
from probekit.train import fit
from probekit.train.fit import Snapshot
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests.forks import Forked
from tests.train.live.trained_runs import prepared
from tests.tuning.cases import installed


def train(given):
    """Train the runs of some options; return their records."""
    plan = [TrainSpec(**given["spec"] | {"seed": seed}) for seed in given.get("seeds", [0])]
    where = {"location": Location(cache=Path(given["cache"])), "out": Path(given["out"])}
    return sweep(plan, workers=given.get("workers", 1), device="cpu", **where)


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Options of a run of nine steps, whose dev is scored after three, six and nine."""
    root = tmp_path_factory.mktemp("snapshots")
    spec, at = prepared(root, layers="-1", max_positions=24)
    asked = {"model": spec.model, "task": spec.task, "head": "p32", "method": "full"}
    asked |= {"epochs": 3, "batch_size": 8, "evals": 3, "batch_tokens": 60}
    return {"spec": asked, "cache": str(at.cache), "out": str(root / "whole.jsonl")}


@pytest.fixture(scope="module")
def whole(given):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "SNAPSHOT_SECONDS", 0.0)
        (record,) = train(given)
    assert not list(Path(given["out"]).parent.glob("*.snapshot*"))
    return record


def killed(given, out, after):
    """Have a process killed after so many steps; return the snapshot that it left."""
    given = given | {"out": str(out)}
    out.parent.mkdir(exist_ok=True)

    def train_and_die():
        keep, kept = Snapshot.keep, []

        def die(self, state):
            keep(self, state)
            kept.append(1)
            if len(kept) == after:
                os.kill(os.getpid(), signal.SIGKILL)

        fit.SNAPSHOT_SECONDS, Snapshot.keep = 0.0, die
        train(given)

    process = Forked(train_and_die, out.parent)
    assert process.said() and process.code == -signal.SIGKILL
    (path,) = out.parent.glob("*.snapshot")
    return given, path


def same(record):
    """What of a record is the same whenever and wherever it is trained."""
    apart = ("train_seconds", "predictions")  # the file of predictions has a digest as well
    return {name: one for name, one in asdict(record).items() if name not in apart}


FROM_SOLVED = {"head": "last", "normalize": "standardize", "start": "solved"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "more"),
    [("lora:dropout=0.1", {}), ("diff-prune:share=0.1", {}), ("bitfit", FROM_SOLVED)],
)
def test_what_a_method_draws_goes_on_where_it_was(given, method, more, tmp_path):
    installed(method)
    own = {**given, "spec": {**given["spec"], "method": method, **more}}
    (whole,) = train({**own, "out": str(tmp_path / "whole.jsonl")})
    again, _ = killed(own, tmp_path / "killed" / "runs.jsonl", 6)
    (record,) = train(again)
    assert same(record) == same(whole)


# before any score; after a step that is to be scored
@pytest.mark.parametrize("after", [pytest.param(2, marks=pytest.mark.slow), 6])
def test_killed_runs_end_in_the_same_record(given, whole, after, tmp_path, caplog):
    again, path = killed(given, tmp_path / "runs.jsonl", after)
    with caplog.at_level("INFO"):
        (record,) = train(again)
    assert f"resuming after step {after}" in caplog.text
    assert same(record) == same(whole)
    assert not path.exists()


def test_what_was_not_written_by_this_run_is_not_read(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(fit, "SNAPSHOT_SECONDS", 0.0)
    found = Snapshot.beside(tmp_path / "runs.jsonl", "0" * 64)
    path = found.path
    replace(found, key="another").keep(lambda: {"step": 1})
    kept = path.read_bytes()
    flips = [
        bytes([*kept[:n], kept[n] ^ 1, *kept[n + 1 :]])
        for n in range(0, len(kept), len(kept) // 20)
    ]
    for content in (*flips, kept[:-50], b"", b"no such thing"):
        path.write_bytes(content)
        assert found.read() is None and "is damaged" in caplog.text
        caplog.clear()
    path.write_bytes(kept)
    assert found.read() is None
    assert "belongs to another run or version: the run starts again" in caplog.text


def test_a_full_disk_does_not_end_the_run(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(fit, "SNAPSHOT_SECONDS", 0.0)
    found = Snapshot.beside(tmp_path / "runs.jsonl", "0" * 64)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    found.keep(dict)
    assert "No space left on device" in caplog.text and not found.path.exists()
