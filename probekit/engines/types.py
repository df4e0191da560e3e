"""What an engine is: a function that runs tasks and yields their results as they finish."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, runtime_checkable

Report = Callable[[int | str], None]
"""Called by a task with the number of steps that it has just done, or with words: what it is at."""

Task = Callable[[Report], Generator[Any, None, None]]
"""A picklable callable that yields results, picklable too; its argument reports progress.

Interrupted, it yields what it has finished, and only then lets the ``KeyboardInterrupt`` through.
"""


@runtime_checkable
class Engine(Protocol):
    """Run tasks and yield ``(position, result)`` for every result, in any order of the tasks.

    A ``KeyboardInterrupt`` comes after what the tasks have finished. Closing the generator stops
    what still runs.
    """

    def __call__(
        self, tasks: Sequence[Task], *, workers: int, report: Report
    ) -> Generator[tuple[int, Any], None, None]:
        """Run ``tasks`` on ``workers`` workers.

        Args:
            tasks: what to run; a task's error is raised here and stops the others.
            workers: how many tasks run at once.
            report: receives what the tasks report.
        """
        ...
