"""A writer thread, so that the disk and the model do not wait for each other."""

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class WriterThread(Generic[T]):
    """Call ``write(item)`` for every item put, in order, on one background thread.

    ``put`` waits until the item before is written, so the thread never holds two. Its first error
    is raised again by the next ``put`` or on leaving the context; items after it are dropped.
    """

    def __init__(self, write: Callable[[T], None]) -> None:
        """Start the thread."""
        self._write = write
        self._queue: queue.Queue[T | None] = queue.Queue(maxsize=1)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="probekit-writer", daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        """Hand ``item`` over; waits until the one before is written."""
        self._queue.join()
        self._raise_error()
        self._queue.put(item)

    def __enter__(self) -> "WriterThread[T]":
        """Return the writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait until all is written; the thread's error is raised unless one is under way."""
        self._queue.put(None)
        self._thread.join()
        if error is None:
            self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._error is None:
                try:
                    self._write(item)
                except BaseException as error:  # handed to the caller's thread, not swallowed
                    self._error = error
            del item  # while the thread waits for the next one, nothing keeps this one in memory
            self._queue.task_done()
