"""Ctrl-C and SIGTERM on a real process: exit code 130, and the same command goes on from there."""

import os
import re
import signal
from pathlib import Path

import pytest

from probekit.extraction import plan
from probekit.results import load_records
from probekit.train.solving.solved_stream import SolvedStream
from tests.cli.conftest import FLOAT32
from tests.cli.console import done, run
from tests.extraction.corpus import write_corpus
from tests.forks import Forked
from tests.planted import plant_all

MESSAGE = "interrupted. What is finished is kept: run the same command again to resume."


def messages(process):
    """Return what an interrupted process said."""
    out, err = process.said()
    assert (process.code, out) == (130, ""), err
    assert err.splitlines()[-1] == MESSAGE and "Traceback" not in err
    return err


def test_extract(bert, here, monkeypatch):
    monkeypatch.setattr(plan, "UNIT_BYTES", 8_000)
    monkeypatch.setattr(plan, "chunk_rows_for", lambda dim, dtype, rows: 16)
    corpus = write_corpus(here / "long", sentences=200)
    words = ("extract", bert, corpus, *FLOAT32, "--split", "train")
    process = Forked.typed(here, *words)
    process.wait(lambda: len(list(here.glob("cache/*/*/*.partial/building/units/*.json"))) >= 5)
    os.kill(process.pid, signal.SIGTERM)
    err = messages(process)
    kept = re.search(r"train: stopped; (\d+) of (\d+) units are finished and kept\.", err)
    (partial,) = here.glob("cache/*/*/*.partial")
    outcome = done(*words)
    found = re.search(r"resuming .*: (\d+) of (\d+) units done", outcome.err)
    assert 5 <= int(found[1]) < int(found[2]) and found.groups() == kept.groups()
    assert not partial.exists()
    assert "match their checksums" in done("cache", "verify", bert, corpus).err


def test_what_a_group_has_finished_is_recorded(here, monkeypatch):
    plant_all(here / "cache")
    solve, solved = SolvedStream.solve, []

    def solve_two(self, report):
        solve(self, report)
        solved.append(self)
        if len(solved) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    words = ("sweep", "planted", "conll", "--head", "last", "--shots", "4", "--seeds", "3")
    words = (*words, "--predictions", "--out", "r.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(SolvedStream, "solve", solve_two)
        err = messages(Forked.typed(here, *words))
    scoring, one, two, said, _ = err.splitlines()
    assert scoring.startswith("interrupted: scoring and recording the finished runs of this group")
    assert one.startswith("[1/3] last, seed 0: ") and two.startswith("[2/3] last, seed 1: ")
    assert said == "2 of 3 runs are recorded in r.jsonl"
    kept = load_records(here / "r.jsonl")
    assert [record.seed for record in kept] == [0, 1]
    assert all(Path(record.predictions).is_file() for record in kept)
    assert not list(here.glob("*.claim"))
    rows = done(*words, "--json").rows
    assert len(rows) == len(load_records(here / "r.jsonl")) == 3
    assert [row["eval_score"] for row in rows[:2]] == [record.eval_score for record in kept]


MAINTENANCE = "probekit.extraction.maintenance"
OF_THE_CACHE = {
    "copy": (f"{MAINTENANCE}.copy_entries", ("ENTRY", "other")),
    "convert": (f"{MAINTENANCE}.convert_entries", ("ENTRY", "--format", "hdf5")),
    "merge": (f"{MAINTENANCE}.merge_shards", ()),
    "import": ("probekit.extraction.imports.import_states", ("a-model", "conll", "states.npz")),
    "push": ("probekit.exchange.Push.apply", ("ENTRY", "hf://datasets/me/states", "--yes")),
    "pull": ("probekit.exchange.Pull.of", ("hf://datasets/me/states",)),
    "verify": (f"{MAINTENANCE}.check_chunks", ("ENTRY",)),
    "rm": (f"{MAINTENANCE}.Removable.of", ("ENTRY", "--yes")),
}


@pytest.mark.parametrize("command", OF_THE_CACHE)
def test_those_commands_of_the_cache_say_so_that_resume(command, here, monkeypatch):
    plant_all(here / "cache")
    entry = next(here.glob("cache/*/*/dev-????????"))
    reached, words = OF_THE_CACHE[command]

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(reached, interrupt)
    outcome = run("cache", command, *(entry if word == "ENTRY" else word for word in words))
    assert (outcome.code, outcome.out) == (130, "")
    resumes = command not in ("verify", "rm")
    assert outcome.err.splitlines()[-1] == (MESSAGE if resumes else "interrupted.")
