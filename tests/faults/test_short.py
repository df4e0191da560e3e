"""A short form of what `make faults` and `make soak` do for hours."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import cycles, fuzz, shim
from tests.faults.world import World

pytestmark = pytest.mark.skipif(shim.compiler() is None, reason="no C compiler builds the shim")


def ran(*words):
    """Run a module of faults; return what it printed."""
    command = [sys.executable, "-m", *map(str, words)]
    done = subprocess.run(command, cwd=shim.ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if line.startswith("| ")]


def test_faults_of_a_command_and_some_strange_inputs(tmp_path):
    found = ran("tests.faults.test_short", tmp_path)
    assert {line.split()[1] for line in found} == {*cycles.KINDS, "fuzz"}
    assert len(found) > 25


@pytest.mark.slow
def test_a_short_soak():
    assert ran("tests.faults.soak", "--minutes", "0")


def short(folder):
    """Strike in one world what is quick; return how much did not hold."""
    world = World(folder / "world")
    world.build()
    only = "cache rm --array|cache copy, twice|runs/base.jsonl"
    broken = cycles.struck(world, list(cycles.KINDS), 1, only=only)
    return broken + fuzz.fuzzed(world, 130, folder / "fuzzed")


if __name__ == "__main__":
    shim.under_shim(["-m", "tests.faults.test_short", *sys.argv[1:]])
    sys.exit(short(Path(sys.argv[1])))
