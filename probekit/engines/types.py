"""What an engine is: a function that runs tasks and yields their results as they finish."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

Report = Callable[[int], None]
"""Called by a task with the number of steps that it has just done."""

Task = Callable[[Report], Any]
"""A picklable callable; its argument reports progress, its result is picklable too."""


class Engine(Protocol):
    """Run tasks and yield ``(position, result)`` as each of them finishes, in any order.

    Closing the generator stops what still runs.
    """

    def __call__(
        self, tasks: Sequence[Task], *, workers: int, report: Report
    ) -> Generator[tuple[int, Any], None, None]:
        """Run ``tasks`` on ``workers`` workers.

        Args:
            tasks: what to run; a task's error is raised here and stops the others.
            workers: how many tasks run at once.
            report: receives the steps that the tasks report.
        """
        ...
