"""Ctrl-C on a real process: exit code 130, and the same command goes on where it stopped."""

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from probekit.extraction import bounds, plan
from tests.cli.conftest import FLOAT32
from tests.cli.console import done
from tests.extraction.corpus import write_corpus

ROOT = Path(__file__).parents[2]
SMALL_UNITS = """
from probekit.extraction import bounds, plan
bounds.UNIT_BYTES = 8_000
plan.chunk_rows_for = lambda dim, dtype, rows: 16
"""
MAIN = "from probekit.cli import main; main()"
MESSAGE = "interrupted. What is finished is kept: run the same command again to resume."


def interrupted(folder, code, words, is_under_way):
    """Run a command in ``folder`` and send it SIGINT as soon as it is under way."""
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
    while process.poll() is None and not is_under_way():
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err.splitlines()[-1] == MESSAGE
    assert "Traceback" not in err


@pytest.fixture
def small_units(monkeypatch):
    monkeypatch.setattr(bounds, "UNIT_BYTES", 8_000)
    monkeypatch.setattr(plan, "chunk_rows_for", lambda dim, dtype, rows: 16)


@pytest.mark.usefixtures("small_units")
def test_extract(bert, here):
    corpus = write_corpus(here / "long", sentences=400)
    words = ("extract", bert, corpus, *FLOAT32, "--split", "train")

    def marked():
        return len(list(here.glob("cache/*/*/*.partial/building/units/*.json"))) >= 5

    interrupted(here, SMALL_UNITS + MAIN, words, marked)
    (partial,) = here.glob("cache/*/*/*.partial")
    outcome = done(*words)
    found = re.search(r"resuming .*: (\d+) of (\d+) units done", outcome.err)
    assert 5 <= int(found[1]) < int(found[2])
    assert not partial.exists()
    assert "match their checksums" in done("cache", "verify", bert, corpus).err


def test_sweep(bert, corpus, cache, here):
    """Groups of one run each: --memory leaves room for no second."""
    file = here / "r.jsonl"
    words = ("sweep", bert, corpus, "--head", "p32", "--epochs", "60", "--seeds", "12")
    words = (*words, "--memory", "1kB", "--out", file)

    def recorded():
        return file.exists() and file.stat().st_size > 0

    interrupted(here, MAIN, words, recorded)
    kept = file.read_text().splitlines()
    assert 1 <= len(kept) < 12
    outcome = done(*words, "--memory", "1GB")
    assert outcome.err.startswith(f"{len(kept)} of 12 runs are recorded in ")
    assert file.read_text().splitlines()[: len(kept)] == kept
    assert len(file.read_text().splitlines()) == 12
