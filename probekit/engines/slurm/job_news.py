"""What jobs tell the process that submitted them, through files of a folder that both see.

Every attempt at a job appends to a file of its own, so what a kill tore stands at the end of one
that nobody continues.
"""

import os
import pickle
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SIZE = 8
"""Bytes before an item that say how many it has, little-endian."""

_SECONDS = 1.0
"""Least time between two writes of steps and words, which come with every batch."""

_SUFFIX = ".news"


@dataclass(frozen=True)
class Begun:
    """An attempt begins.

    Attributes:
        job: what Slurm calls it.
        host: where.
        restarts: how often Slurm has put it back into the queue before.
    """

    job: str
    host: str
    restarts: int


@dataclass(frozen=True)
class Result:
    """A result that the job yielded.

    Attributes:
        value: the result.
    """

    value: Any


@dataclass(frozen=True)
class Interrupted:
    """An attempt was asked to stop, and has handed over what it had finished."""


@dataclass(frozen=True)
class Ended:
    """A job has come to its end.

    Attributes:
        error: what it raised, if anything.
    """

    error: Exception | None = None


class Outbox:
    """The end of a job: appends items to a file; steps and words are gathered for a second."""

    def __init__(self, folder: Path, position: int) -> None:
        """Choose a file.

        Args:
            folder: of the news of all jobs, which is there.
            position: of the job.
        """
        self._path = folder / f"{position}-{uuid.uuid4().hex}{_SUFFIX}"
        self._lock = threading.RLock()  # messages come from any thread
        self._steps = 0
        self._words = ""
        self._written = 0.0

    def put(self, item: Any) -> None:
        """Tell an item: steps (a number), words (a string), or any other."""
        with self._lock:
            if isinstance(item, int):
                self._steps += item
            elif isinstance(item, str):
                self._words = item
            else:
                self._append(item)
                return
            if time.monotonic() - self._written >= _SECONDS:
                self._append()

    put_nowait = put
    """What a handler of messages calls."""

    def _append(self, *items: Any) -> None:
        gathered = [one for one in (self._steps, self._words) if one]
        self._steps, self._words = 0, ""
        frames = bytearray()
        for item in (*gathered, *items):
            content = _pickled(item)
            frames += len(content).to_bytes(_SIZE, "little") + content
        # opened for each write: machines that share the file see it when it is closed
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, frames)
        finally:
            os.close(descriptor)
        self._written = time.monotonic()


def _pickled(item: Any) -> bytes:
    import cloudpickle

    return bytes(cloudpickle.dumps(item))


@dataclass
class Inbox:
    """The end of the process that submitted the jobs.

    Attributes:
        folder: of the news of all jobs.
    """

    folder: Path
    _read: dict[Path, int] = field(default_factory=dict)

    def take(self) -> Iterator[tuple[int, Any]]:
        """Yield the position of a job and an item, of all that have come since the last time."""
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            start = self._read.get(path, 0)
            with path.open("rb") as file:
                file.seek(start)
                content = file.read()
            place = 0
            while (end := place + _SIZE) <= len(content):
                size = int.from_bytes(content[place:end], "little")
                if end + size > len(content):
                    break
                place = end + size
                self._read[path] = start + place
                yield int(path.name.partition("-")[0]), pickle.loads(content[end:place])
