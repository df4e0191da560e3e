"""What an engine is: a function that runs jobs and yields their results as they finish."""

import logging
import signal
from collections.abc import Callable, Generator, Sequence
from types import FrameType
from typing import Any, Protocol

from probekit.base.machine import STOP
from probekit.base.plugins import take_over

Report = Callable[[int | str], None]
"""Called by a job with the number of steps that it has just done, or with words: what it is at."""

Job = Callable[[Report], Generator[Any, None, None]]
"""A picklable callable that yields results, picklable too; its argument reports progress.

Interrupted, it yields what it has finished, and only then lets the ``KeyboardInterrupt`` through.
Where its worker is lost, an engine may run it again: it finds what it has finished, and reports the
steps of that too, as those of the lost run are taken back.
"""


class Engine(Protocol):
    """Run jobs and yield ``(position, result)`` for every result, in any order of the jobs.

    A ``KeyboardInterrupt`` comes after what the jobs have finished. Closing the generator stops
    what still runs.
    """

    def __call__(
        self, jobs: Sequence[Job], *, workers: int, report: Report
    ) -> Generator[tuple[int, Any], None, None]:
        """Run ``jobs`` on ``workers`` workers.

        Args:
            jobs: what to run; a job's error is raised here and stops the others.
            workers: how many jobs run at once.
            report: receives what the jobs report.
        """


_at_work = False
_asked_to_stop = False


def heed_stop() -> None:
    """Let `STOP` alone interrupt the jobs of this process.

    Ctrl-C reaches the whole process group; who started this process asks for itself.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(STOP, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    """Interrupt the job that runs here, if any, and begin no other."""
    global _asked_to_stop
    _asked_to_stop = True
    if _at_work:
        raise KeyboardInterrupt


def run_job(
    job: Job,
    added: bytes | None,
    report: Report,
    heard: Callable[[Any], object] = lambda result: None,
) -> list[Any]:
    """Return what a job yields; where it was interrupted, what it had finished.

    Args:
        job: the job.
        added: the plug-ins that were registered in the process that started this one.
        report: receives what the job reports.
        heard: called with every result as it is yielded.
    """
    global _at_work
    results: list[Any] = []
    if _asked_to_stop:
        return results
    if added is not None:
        take_over(added)
    try:
        _at_work = True
        for result in job(report):
            results.append(result)
            heard(result)
    except KeyboardInterrupt:
        if not _asked_to_stop:
            raise
    finally:
        _at_work = False
    return results


def pass_on(news: Any, report: Report) -> None:
    """Report what a worker has reported, or log what it has logged."""
    if isinstance(news, logging.LogRecord):
        logger = logging.getLogger(news.name)
        if logger.isEnabledFor(news.levelno):
            logger.handle(news)
    else:
        report(news)
