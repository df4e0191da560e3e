"""A short form of what `make faults` and `make soak` do for hours."""

import subprocess
import sys

import pytest

from tests.faults import shim

pytestmark = pytest.mark.skipif(shim.compiler() is None, reason="no C compiler builds the shim")


def ran(*words):
    """Run a module of faults; return what it printed."""
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=shim.ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if line.startswith("| ")]


def test_faults_of_some_commands():
    only = "cache rm --array|two shards|runs/base.jsonl"
    kinds = ("kill", "error", "power", "race", "flip")
    found = ran("tests.faults.cycles", *kinds, "--cycles", "2", "--only", only)
    assert {line.split()[1] for line in found} == set(kinds)


def test_some_strange_inputs(tmp_path):
    found = ran("tests.faults.fuzz", "--inputs", "650", "--keep", str(tmp_path / "fuzzed"))
    assert len(found) > 20


@pytest.mark.slow
def test_a_short_soak():
    assert ran("tests.faults.soak", "--minutes", "0")
