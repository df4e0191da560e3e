"""What an engine is: a function that runs jobs and yields their results as they finish."""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

Report = Callable[[int | str], None]
"""Called by a job with the number of steps that it has just done, or with words: what it is at."""

Job = Callable[[Report], Generator[Any, None, None]]
"""A picklable callable that yields results, picklable too; its argument reports progress.

Interrupted, it yields what it has finished, and only then lets the ``KeyboardInterrupt`` through.
Where its worker is lost, an engine may run it again: it finds what it has finished, and reports the
steps of that too, as those of the lost run are taken back.
"""


@runtime_checkable
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


@runtime_checkable
class RemoteEngine(Engine, Protocol):
    """An engine whose jobs run on other machines, where each finds its own device.

    They may go on when the process that started them is gone.
    """

    def ready_for(self, folder: Path, afterwards: Job | None = None) -> Engine:
        """Return this engine for jobs that write into a folder.

        Args:
            folder: what they write into, which all of them see; what the engine itself has to
                write goes there too.
            afterwards: what completes their work when all have ended, however, and this process is
                gone by then; for an engine whose jobs go on.
        """
