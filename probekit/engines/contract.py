"""What an engine is: a function that runs jobs and yields their results as they finish."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

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
