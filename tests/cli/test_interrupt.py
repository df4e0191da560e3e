"""Ctrl-C and SIGTERM on a real process: exit code 130, and the same command goes on from there."""

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from probekit.extraction import plan, units
from probekit.results import load_records
from tests.cli.conftest import FLOAT32
from tests.cli.console import done, run
from tests.extraction.corpus import write_corpus
from tests.planted import plant_all

ROOT = Path(__file__).parents[2]
SMALL_UNITS = """
from probekit.extraction import plan, units
units.UNIT_BYTES = 8_000
plan.chunk_rows_for = lambda dim, dtype, rows: 16
"""
MAIN = "from probekit.cli import main; main()"
MESSAGE = "interrupted. What is finished is kept: run the same command again to resume."


def interrupted(folder, code, words, is_under_way):
    """Run a command in ``folder`` and send it a signal as soon as it is under way."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs ignore SIGINT, and what they start inherits that.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    if is_under_way is not None:  # or the process sends it to itself
        while process.poll() is None and not is_under_way():
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err.splitlines()[-1] == MESSAGE
    assert "Traceback" not in err
    return err


@pytest.fixture
def small_units(monkeypatch):
    monkeypatch.setattr(units, "UNIT_BYTES", 8_000)
    monkeypatch.setattr(plan, "chunk_rows_for", lambda dim, dtype, rows: 16)


@pytest.mark.usefixtures("small_units")
def test_extract(bert, here):
    corpus = write_corpus(here / "long", sentences=400)
    words = ("extract", bert, corpus, *FLOAT32, "--split", "train")

    def marked():
        return len(list(here.glob("cache/*/*/*.partial/building/units/*.json"))) >= 5

    err = interrupted(here, SMALL_UNITS + MAIN, words, marked)
    kept = re.search(r"train: (\d+) of (\d+) units are finished, and kept\.", err)
    (partial,) = here.glob("cache/*/*/*.partial")
    outcome = done(*words)
    found = re.search(r"resuming .*: (\d+) of (\d+) units done", outcome.err)
    assert 5 <= int(found[1]) < int(found[2]) and found.groups() == kept.groups()
    assert not partial.exists()
    assert "match their checksums" in done("cache", "verify", bert, corpus).err


AFTER_TWO_RUNS = """
import os, signal
from probekit.train.solving.solved_stream import SolvedStream
solve, solved = SolvedStream.solve, []
def solve_and_count(self, report):
    solve(self, report)
    solved.append(self)
    if len(solved) == 2:
        os.kill(os.getpid(), signal.SIGINT)
SolvedStream.solve = solve_and_count
"""


def test_what_a_group_has_finished_is_recorded(here):
    plant_all(here / "cache")
    words = ("sweep", "planted", "conll", "--head", "p32", "--shots", "4", "--seeds", "5")
    words = (*words, "--predictions", "--out", "r.jsonl")
    err = interrupted(here, AFTER_TWO_RUNS + MAIN, words, None)
    scoring, one, two, said, _ = err.splitlines()
    assert scoring.startswith("interrupted: scoring and recording the finished runs of this group")
    assert one.startswith("[1/5] p32, seed 0: ") and two.startswith("[2/5] p32, seed 1: ")
    assert said == "2 of 5 runs are recorded in r.jsonl"
    kept = load_records(here / "r.jsonl")
    assert [record.seed for record in kept] == [0, 1]
    assert all(Path(record.predictions).is_file() for record in kept)
    assert not list(here.glob("*.claim"))
    rows = done(*words, "--json").rows
    assert len(rows) == len(load_records(here / "r.jsonl")) == 5
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
