"""The writer's lock: one process builds an entry, and any other learns who that is at once.

The operating system's lock is what counts, and it goes with its process, so a killed run leaves
nothing to clean up. The owner file beside it only names the holder for the message.
"""

import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from probekit.errors import EntryLockedError
from probekit.store.files import write_whole
from probekit.store.names import LOCK, OWNER, beside, remains


class EntryLock:
    """Exclusive right to build one entry; held from construction until `release`."""

    def __init__(self, entry: Path) -> None:
        """Take the lock of ``entry`` (its final folder), without waiting.

        Raises:
            EntryLockedError: another process, or another builder of this one, holds it.
        """
        self._entry = entry
        self._path = beside(entry, LOCK)
        self._owner = beside(entry, OWNER)
        self._lock = FileLock(self._path, timeout=0, thread_local=False)
        try:
            self._lock.acquire()
        except Timeout:
            raise EntryLockedError(
                f"{entry} is being written by {_describe(self._owner)}. Wait until it is done, or "
                "stop it and run this command again (finished units are kept)."
            ) from None
        owner = {"host": socket.gethostname(), "pid": os.getpid(), "started": _now()}
        try:
            write_whole(self._owner, json.dumps(owner).encode())
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        """Give the lock back; its empty file stays for the next writer while there is an entry.

        Whoever opened a file that goes finds that it has no name any more, and makes a new one.
        """
        if self._lock.is_locked:
            self._owner.unlink(missing_ok=True)
            if not remains(self._entry):
                self._path.unlink(missing_ok=True)
            self._lock.release()


def _describe(owner: Path) -> str:
    try:
        found = json.loads(owner.read_text())
        return f"process {found['pid']} on {found['host']}, started {found['started']}"
    except (OSError, ValueError, KeyError):
        return "another process (it has not written its name yet)"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
