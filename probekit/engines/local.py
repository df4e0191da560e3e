"""The local engine: tasks in this process, or spread over worker processes of this machine.

Workers are spawned, not forked, because torch and HDF5 do not survive a fork, and share the cores
evenly. Steps done travel back through a queue, so one bar shows them all.
"""

import logging
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import SpawnContext
from multiprocessing.util import Finalize
from typing import Any

from probekit.engines.types import Report, Task
from probekit.errors import EngineError, OptionError
from probekit.hardware import usable_cores

_POLL_SECONDS = 0.2

_LAST = -1000
"""A priority after multiprocessing's own: queues send what they hold (-5), folders go (-100)."""

_steps: Any = None
"""In a worker: the queue that takes the steps done."""


def run_local(
    tasks: Sequence[Task], *, workers: int, report: Report
) -> Generator[tuple[int, Any], None, None]:
    """Run tasks here, in order, or on several worker processes (see ``Engine``).

    Raises:
        OptionError: ``workers`` is less than one.
        EngineError: a worker process died.
    """
    if workers < 1:
        raise OptionError(f"--workers must be at least 1; found {workers}.")
    if workers == 1 or len(tasks) <= 1:
        for position, task in enumerate(tasks):
            yield position, task(report)
        return
    yield from _run_spawned(tasks, min(workers, len(tasks)), report)


def _run_spawned(
    tasks: Sequence[Task], workers: int, report: Report
) -> Generator[tuple[int, Any], None, None]:
    context = multiprocessing.get_context("spawn")
    steps = context.Queue()
    pool = _start_pool(context, workers, steps)
    finished = False
    try:
        futures = {pool.submit(_run_task, task): place for place, task in enumerate(tasks)}
        for future in _as_completed(set(futures), steps, report):
            yield futures[future], _result(future)
        finished = True
    finally:
        if not finished:
            _stop(pool)
        pool.shutdown(cancel_futures=True)
        _drain(steps, report)
        steps.close()


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenProcessPool:
        raise EngineError(
            "a worker process died, most likely for lack of memory. What is finished is kept: run "
            "the command again with a smaller --memory or fewer --workers. A script of your own "
            "must start its work under `if __name__ == '__main__':`, or its workers die at once."
        ) from None


def _start_pool(context: SpawnContext, workers: int, steps: Any) -> ProcessPoolExecutor:
    level = logging.getLogger("probekit").getEffectiveLevel()
    threads = max(usable_cores() // workers, 1)
    return ProcessPoolExecutor(
        workers, mp_context=context, initializer=_start_worker, initargs=(steps, threads, level)
    )


def _start_worker(steps: Any, threads: int, level: int) -> None:
    global _steps
    # Ctrl-C reaches the whole process group; the parent stops its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=level, format="%(message)s")
    threading.Thread(target=_follow_parent, name="probekit-parent", daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    _steps = steps
    Finalize(None, _leave, exitpriority=_LAST)


def _leave() -> None:
    """End this worker here: the system frees its memory faster than Python takes torch apart."""
    if sys.exc_info()[0] is not None:  # which Python prints after this
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _follow_parent() -> None:
    """End this worker when the process that started it is gone, however it ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"
    parent.join()
    os._exit(1)


def _run_task(task: Task) -> Any:
    return task(_steps.put)


def _as_completed(waiting: set[Future[Any]], steps: Any, report: Report) -> Iterator[Future[Any]]:
    while waiting:
        done, waiting = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        _drain(steps, report)
        # failed ones last: their error ends the sweep, and what else is done must be recorded first
        yield from sorted(done, key=lambda future: future.exception() is not None)


def _drain(steps: Any, report: Report) -> None:
    while True:
        try:
            report(steps.get_nowait())
        except queue.Empty:
            return


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the workers at once; a task that is half done leaves nothing behind."""
    for process in list((pool._processes or {}).values()):
        process.terminate()
