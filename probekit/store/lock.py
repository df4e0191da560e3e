"""The writer's lock, and the renames by which what was built under it becomes the entry.

One process builds an entry, and any other learns who that is at once. The operating system's lock
is what counts, and it goes with its process, so a killed run leaves nothing to clean up. The owner
file beside it only names the holder for the message.
"""

import ctypes
import errno
import fcntl
import json
import os
import shutil
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from probekit.errors import EntryLockedError
from probekit.store.files import storage_errors, sync_path, write_whole
from probekit.store.json_types import read_object
from probekit.store.layout import LOCK, OWNER, REPLACED, beside, remains

_HERE = -100  # AT_FDCWD: paths are what they are in this process
_EXCHANGE = 2
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP}

_OWNER_FIELDS = {"host", "pid", "started"}


class EntryLock:
    """Exclusive right to build one entry, held from construction until `release`; a context."""

    def __init__(self, entry: Path) -> None:
        """Take the lock of ``entry`` (its final folder), without waiting.

        Raises:
            EntryLockedError: another process, or another builder of this one, holds it.
            StorageError: the folder cannot be written.
        """
        self._entry = entry
        self._path = beside(entry, LOCK)
        self._owner = beside(entry, OWNER)
        self._lock = FileLock(self._path, timeout=0, thread_local=False)
        try:
            with storage_errors(entry.parent):
                entry.parent.mkdir(parents=True, exist_ok=True)
                self._lock.acquire()
        except Timeout:
            raise _locked(entry) from None
        started = datetime.now(UTC).isoformat(timespec="seconds")
        owner = {"host": socket.gethostname(), "pid": os.getpid(), "started": started}
        try:
            with storage_errors(entry.parent):
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def check_unlocked(entry: Path) -> None:
    """Refuse an entry that is being written; nothing is locked, and no file is made.

    Raises:
        EntryLockedError: a process is writing it.
    """
    # the name goes with the lock, so that only one that a kill left is probed
    if not beside(entry, OWNER).exists():
        return
    try:
        descriptor = os.open(beside(entry, LOCK), os.O_RDONLY)
    except OSError:  # there is no lock, or none that this user can take
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _locked(entry) from None
    finally:
        os.close(descriptor)


def _locked(entry: Path) -> EntryLockedError:
    who = "another process (it has not written its name yet)"
    if found := read_owner(beside(entry, OWNER)):
        who = f"process {found['pid']} on {found['host']}, started {found['started']}"
    return EntryLockedError(
        f"{entry} is being written by {who}. Wait until it is done, or stop it and run "
        "this command again (finished units are kept)."
    )


def read_owner(file: Path) -> dict[str, Any] | None:
    """Return the host, process and start that an owner file names; None where it is none."""
    found = read_object(file)
    return found if found is not None and found.keys() == _OWNER_FIELDS else None


def install(partial: Path, path: Path) -> None:
    """Rename a sealed folder to its final name, replacing an entry that is there."""
    replaced = beside(path, REPLACED)
    if not path.exists():
        partial.rename(path)
    elif _exchange(partial, path):
        partial.rename(replaced)  # the old entry, by now
    else:
        path.rename(replaced)
        partial.rename(path)
    sync_path(path.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in a single step; say whether the system can."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))
