import logging
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from probekit.base.machine import usable_cores
from probekit.engines import run_local
from probekit.engines.local import _as_completed, _cause_of_death
from probekit.errors import EngineError, OptionError
from tests.forks import begin, ended

ROOT = Path(__file__).parents[2]


def double(value, report):
    import torch

    logging.getLogger("probekit.engines").info("seen from %d", value)
    report(value)
    yield 2 * value, os.getpid(), torch.get_num_threads()


def fail(folder, report):
    """Fail when the caller has what the others return and report."""
    yield from ()
    assert eventually((folder / "all are there").exists)
    raise ValueError("no such row")


def write_pid_and_wait(folder, report):
    yield from ()
    (folder / str(os.getpid())).touch()
    time.sleep(60)


def eventually(condition, seconds=60):
    """Wait for a condition, and return whether it came true."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def waiting(folder, count=2):
    """The process ids of workers, when so many of them wait."""
    assert eventually(lambda: len(list(folder.iterdir())) == count)
    return [int(path.name) for path in folder.iterdir()]


def gone(pids):
    return eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids), seconds=10)


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_with_their_position_and_what_is_reported_logged_and_raised(
    workers, caplog, tmp_path
):
    caplog.set_level(logging.INFO, "probekit")
    steps, results = [], {}

    def look():
        if len(results) == len(steps) == 3:
            (tmp_path / "all are there").touch()

    def report(step):
        steps.append(step)
        look()

    jobs = [*(partial(double, value) for value in (3, 4, 5)), partial(fail, tmp_path)]
    with pytest.raises(ValueError, match="no such row"):
        for place, result in run_local(jobs, workers=workers, report=report):
            results[place] = result
            look()
    assert {place: value for place, (value, *_) in results.items()} == {0: 6, 1: 8, 2: 10}
    assert sorted(steps) == [3, 4, 5]
    said = sorted(record.getMessage() for record in caplog.records)
    assert said == [f"seen from {value}" for value in (3, 4, 5)]
    _, pids, threads = (set(column) for column in zip(*results.values(), strict=True))
    assert (pids == {os.getpid()}) == (workers == 1)
    assert workers == 1 or threads == {max(usable_cores() // 2, 1)}, "workers share the cores"


def test_a_caller_that_stops_early_ends_the_workers(tmp_path):
    jobs = [partial(double, 3), *[partial(write_pid_and_wait, tmp_path)] * 2]
    run = run_local(jobs, workers=2, report=lambda steps: None)
    assert next(run)[0] == 0
    pids = waiting(tmp_path)
    run.close()
    assert gone(pids)


def die(report):
    yield from ()
    os.kill(os.getpid(), signal.SIGKILL)


MEMORY = r"a worker process died, most likely for lack of memory.* fewer --workers"


def test_a_worker_that_dies_is_an_error():
    with pytest.raises(EngineError, match=MEMORY):
        list(run_local([die] * 2, workers=2, report=lambda news: None))


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ((0, None, -signal.SIGTERM, -signal.SIGKILL), MEMORY),
        ((-signal.SIGTERM,), MEMORY),
        ((-signal.SIGSEGV,), r"a worker process died of SIGSEGV.* fewer --workers"),
        ((3, -signal.SIGSEGV), r"failed \(exit code 3\).* fewer --workers"),
    ],
)
def test_how_a_worker_died_is_said(codes, said):
    """The others, which the pool ends, have nothing to say."""
    assert re.search(said, _cause_of_death([SimpleNamespace(exitcode=code) for code in codes]))


UNGUARDED = """
from functools import partial
from probekit.engines import run_local
print(list(run_local([partial(print, 1)] * 2, workers=2, report=print)))
"""


def test_a_script_without_a_main_guard_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    found = subprocess.run(
        [sys.executable, script], env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert found.stdout == ""
    assert "EngineError: a worker process failed (exit code 1)" in found.stderr
    assert "if __name__ == '__main__'" in found.stderr and "memory" not in found.stderr
    assert found.stderr.count("Traceback") == 1, "the workers themselves are silent"


class Unreadable:
    """A task that no worker can unpickle."""

    def __reduce__(self):
        return int, ("not a number",)


def test_why_a_worker_died_is_printed(capfd):
    with pytest.raises(EngineError, match=r"failed \(exit code 1\)"):
        list(run_local([Unreadable()] * 2, workers=2, report=lambda steps: None))
    assert "ValueError: invalid literal" in capfd.readouterr().err


def test_no_workers_is_refused():
    with pytest.raises(OptionError, match="--workers must be at least 1; found 0"):
        list(run_local([], workers=0, report=lambda steps: None))


def test_workers_do_not_outlive_a_killed_parent(tmp_path):
    jobs = [partial(write_pid_and_wait, tmp_path)] * 2
    parent = begin(lambda: list(run_local(jobs, workers=2, report=lambda steps: None)))
    pids = waiting(tmp_path)
    os.kill(parent, signal.SIGKILL)
    assert ended(parent) == -signal.SIGKILL and gone(pids)


def test_what_is_done_comes_before_what_failed():
    """The first error ends a sweep: what was finished at the same moment must not be lost."""
    futures = [Future() for _ in range(8)]
    for number, future in enumerate(futures):
        if number % 2:
            future.set_result(number)
        else:
            future.set_exception(EngineError("dead"))
    found = list(_as_completed(set(futures), queue.Queue(), print))
    assert [future.exception() is None for future in found] == [True] * 4 + [False] * 4


def finish_one_and_wait(folder, report):
    """A task with two runs, of which the first is finished when it is interrupted."""
    try:
        (folder / str(os.getpid())).touch()
        time.sleep(60)
    except KeyboardInterrupt:
        yield "finished"
        raise
    yield "never"


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_finished_is_handed_over_before_an_interrupt(tmp_path, workers):
    def interrupt():
        waiting(tmp_path, workers)
        os.kill(os.getpid(), signal.SIGINT)

    tasks = [partial(finish_one_and_wait, tmp_path)] * 2
    found = []
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        for _, result in run_local(tasks, workers=workers, report=lambda news: None):
            found.append(result)
    thread.join()
    assert found == ["finished"] * workers
