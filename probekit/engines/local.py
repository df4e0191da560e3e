"""The local engine: jobs in this process, or spread over worker processes of this machine.

Workers are spawned, not forked, because torch and HDF5 do not survive a fork, and share the cores
evenly. Steps done and messages travel back through a queue, so one bar shows all steps, and
messages go where those of this process go.
"""

import logging
import math
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from logging.handlers import QueueHandler
from multiprocessing.process import BaseProcess
from typing import Any

from probekit.base.machine import STOP, usable_cores
from probekit.base.plugins import pickled_plugins
from probekit.engines.contract import Job, Report, heed_stop, pass_on, run_job
from probekit.errors import EngineError, OptionError

_POLL_SECONDS = 0.2

_GRACE_SECONDS = 120.0
"""How long workers may take to hand over what they have finished, once they are asked to stop."""

_news: Any = None
"""In a worker: the queue that takes what is reported and logged."""


def check_workers(workers: int) -> None:
    """Refuse to run on no worker.

    Raises:
        OptionError: there is less than one.
    """
    if workers < 1:
        raise OptionError(f"--workers must be at least 1; found {workers}.")


def run_local(
    jobs: Sequence[Job], *, workers: int, report: Report
) -> Generator[tuple[int, Any], None, None]:
    """Run jobs here, in order, or on several worker processes (see ``Engine``).

    Raises:
        OptionError: ``workers`` is less than one.
        EngineError: a worker process died.
    """
    check_workers(workers)
    if workers == 1 or len(jobs) <= 1:
        for position, job in enumerate(jobs):
            with closing(job(report)) as results:
                for result in results:
                    yield position, result
        return
    yield from _run_spawned(jobs, min(workers, len(jobs)), report)


def _run_spawned(
    jobs: Sequence[Job], workers: int, report: Report
) -> Generator[tuple[int, Any], None, None]:
    # A worker that only imports the script which it is to work for must not start the work.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(
            "Workers import your script, and without a main guard the import would start its work "
            "again: put the work under `if __name__ == '__main__':`, or give workers=1."
        )
    context = multiprocessing.get_context("spawn")
    news = context.Queue()
    level = logging.getLogger("probekit").getEffectiveLevel()
    given = news, max(usable_cores() // workers, 1), level
    added = pickled_plugins()
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_start_worker, initargs=given
    )
    try:
        futures = {pool.submit(_run_job, job, added): position for position, job in enumerate(jobs)}
        processes = list(pool._processes.values())
        left = set(futures)
        try:
            for future in _as_completed(left, news, report):
                try:
                    results = future.result()
                except BrokenProcessPool:
                    pool.shutdown()  # ends the other workers as well
                    raise EngineError(_cause_of_death(processes)) from None
                yield from ((futures[future], result) for result in results)
        except KeyboardInterrupt:
            for process in processes:  # what is finished is wanted; those that start end at once
                if process.pid is not None and process.is_alive():
                    os.kill(process.pid, STOP)
            for future in _as_completed(left, news, report, seconds=_GRACE_SECONDS):
                results = future.result() if future.exception() is None else []
                yield from ((futures[future], result) for result in results)
            raise
    except BaseException:  # a job that is half done leaves nothing behind
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        _drain(news, report)
        news.close()


def _cause_of_death(processes: Sequence[BaseProcess]) -> str:
    """Return why a worker died, and what to do, from how all ended; the pool terminates others."""
    codes = {process.exitcode or 0 for process in processes} - {0, -signal.SIGTERM}
    kept = "What is finished is kept: run the command again"
    if (code := max(codes, default=0)) > 0:
        return (
            f"a worker process failed (exit code {code}); it printed the error above. {kept} once "
            "that is fixed, or with fewer --workers (1 starts none). Workers import your script, "
            "which must be a file."
        )
    name = signal.Signals(-min(codes, default=-signal.SIGKILL)).name
    why = ", most likely for lack of memory" if name == "SIGKILL" else f" of {name}"
    return f"a worker process died{why}. {kept} with fewer --workers."


def _start_worker(news: Any, threads: int, level: int) -> None:
    global _news
    heed_stop()
    logging.basicConfig(level=level, format="%(message)s", handlers=[QueueHandler(news)])
    threading.Thread(target=_follow_parent, name="probekit-parent", daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    _news = news


def _follow_parent() -> None:
    """End this worker when the process that started it is gone, however it ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"
    parent.join()
    os._exit(1)


def _run_job(job: Job, added: bytes | None) -> list[Any]:
    return run_job(job, added, _news.put)


def _as_completed(
    waiting: set[Future[Any]], news: Any, report: Report, seconds: float = math.inf
) -> Iterator[Future[Any]]:
    """Yield futures as they end, for some seconds at most, and take them out of the set."""
    end = time.monotonic() + seconds
    while waiting and time.monotonic() < end:
        done, _ = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        _drain(news, report)
        # failed ones last: their error ends the sweep, and what else is done must be recorded first
        for future in sorted(done, key=lambda future: future.exception() is not None):
            waiting.discard(future)
            yield future


def _drain(news: Any, report: Report) -> None:
    """Report and log what the workers have sent."""
    while True:
        try:
            item = news.get_nowait()
        except queue.Empty:
            return
        pass_on(item, report)
