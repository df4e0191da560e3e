"""An entry whose writer is killed at random moments is, once resumed, the same byte for byte."""

import multiprocessing
import os
import random
import signal
import time

import pytest

from tests.store import synthetic, writer_program

# One server imports torch once and forks the writers.
SPAWN = multiprocessing.get_context("forkserver")
SPAWN.set_forkserver_preload(["tests.store.writer_program"])

PAUSE = 0.005


def kill_once(path, backend, dtype, rng):
    """Start a writer, SIGKILL it at a random moment, and return how many units it had marked."""
    units = path.with_name(path.name + ".partial") / "building" / "units"
    done = len(list(units.glob("*.json")))
    target = rng.randint(done, writer_program.N_UNITS)
    writer = SPAWN.Process(target=writer_program.build, args=(path, backend, dtype, PAUSE))
    writer.start()
    while writer.is_alive() and len(list(units.glob("*.json"))) < target:
        time.sleep(0.0005)
    time.sleep(rng.uniform(0, 4 * PAUSE) if units.exists() else rng.uniform(0, 0.1))
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    assert writer.exitcode in (0, -signal.SIGKILL)
    return len(list(units.glob("*.json")))


def check_kills(tmp_path, backend, dtype, rounds):
    """Kill, resume and compare ``rounds`` times, a third of them killed twice."""
    writer_program.build(tmp_path / "whole-00000000", backend, dtype)
    expected = synthetic.folder_bytes(tmp_path / "whole-00000000")
    rng = random.Random(f"{backend} {dtype}")
    interrupted = 0
    for number in range(rounds):
        path = tmp_path / f"killed{number}-00000000"
        for _ in range(1 + (number % 3 == 2)):
            done = 0 if path.exists() else kill_once(path, backend, dtype, rng)
            interrupted += not path.exists() and done > 0
        if not path.exists():
            writer_program.build(path, backend, dtype)
        assert synthetic.folder_bytes(path) == expected
    assert interrupted >= rounds // 3, "the kills came before or after the writing: no test at all"


@pytest.mark.parametrize("backend", ["zarr", "hdf5"])
def test_killed_five_times(tmp_path, backend):
    check_kills(tmp_path, backend, "float16", rounds=5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("backend", ["zarr", "hdf5"])
def test_killed_twenty_times(tmp_path, backend, dtype):
    check_kills(tmp_path, backend, dtype, rounds=20)
