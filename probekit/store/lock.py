"""The writer's lock, and the renames by which what was built under it becomes the entry.

One process builds an entry, or the shards of one extraction do, and any other learns who that is.
The operating system's lock is what counts, and it goes with its process, so a killed run leaves
nothing to clean up. The owner file beside it only names the holder for the message.
"""

import ctypes
import errno
import fcntl
import json
import os
import shutil
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from probekit.base.replacing import matching, sync_path
from probekit.errors import EntryLockedError, StorageError
from probekit.store import layout
from probekit.store.files import storage_errors
from probekit.store.json_types import read_object

_HERE = -100  # AT_FDCWD: paths are what they are in this process
_EXCHANGE = 2
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP}

_OWNER_FIELDS = {"host", "pid", "started"}

_PATIENCE = 120.0
"""Seconds that a shard waits for others, which hold the entry's lock to begin or to seal it."""

_MOMENT = 1.0
"""Seconds after which the name beside a lock is its holder's, and not that of one before."""

_POLL_SECONDS = 0.05


class _OwnedFile:
    """A file that one process has locked, and beside it the name of that process."""

    def __init__(self, path: Path, owner: Path, what: str) -> None:
        self.path = path
        self.owner = owner
        self._what = what
        self._lock = FileLock(path, timeout=0, thread_local=False)

    def acquire(self, shard: str | None = None) -> None:
        """Take it without waiting.

        Raises:
            EntryLockedError: it is held; says by whom.
            StorageError: the folder cannot be written.
        """
        folder = self.path.parent
        try:
            with storage_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
                self._lock.acquire()
        except Timeout:
            raise _locked(self._what, self.owner) from None
        started = datetime.now(UTC).isoformat(timespec="seconds")
        owner = {"host": socket.gethostname(), "pid": os.getpid(), "started": started}
        try:
            with storage_errors(folder):
                written = owner if shard is None else owner | {"shard": shard}
                self.owner.write_text(json.dumps(written), "utf-8")  # torn, it names nobody
        except BaseException:
            self._lock.release()
            raise

    def release(self, *, keep: bool) -> None:
        """Give it back if it is held; ``keep`` leaves the empty file for the next holder.

        Whoever opened a file that goes finds that it has no name any more, and makes a new one.
        """
        if self._lock.is_locked:
            self.owner.unlink(missing_ok=True)
            if not keep:
                self.path.unlink(missing_ok=True)
            self._lock.release()


class EntryLock:
    """Exclusive right to build one entry, held from construction until `release`; a context.

    Shards of one extraction build an entry together: each holds the entry's lock while it begins
    and while it seals (`for_all`), and between these a lock of its own (`for_share`), which keeps
    away all but the other shards of as many.
    """

    def __init__(self, entry: Path, shard: str | None = None) -> None:
        """Take the lock of ``entry`` (its final folder): of a shard, after those that begin.

        Args:
            entry: the final folder.
            shard: ``2-of-4``: the place of a process that builds the entry with others.

        Raises:
            EntryLockedError: another process, another builder of this one, or a shard, holds it.
            StorageError: the folder cannot be written.
        """
        self._entry, self._shard = entry, shard
        self._whole = _OwnedFile(
            layout.beside(entry, layout.LOCK), layout.beside(entry, layout.OWNER), str(entry)
        )
        self._own = None if shard is None else _shard_file(entry, shard)
        self.for_all()

    def for_all(self) -> None:
        """Take the entry's lock, and give the shard's own one back.

        Raises:
            EntryLockedError: it is held by a process that builds the entry alone, or for long; or a
                shard is at work, and this is none or one of another number of shards.
            StorageError: the folder cannot be written.
        """
        if self._own is not None:
            self._own.release(keep=False)
        start = time.monotonic()
        while True:
            try:
                self._whole.acquire(self._shard)
                break
            except EntryLockedError:
                holder = read_owner(self._whole.owner)
                alone = holder is not None and "shard" not in holder
                patience = _MOMENT if alone else _PATIENCE
                if self._shard is None or time.monotonic() >= start + patience:
                    raise
            time.sleep(_POLL_SECONDS)
        try:
            self.refuse_shards(None if self._shard is None else _of_how_many(self._shard))
        except BaseException:
            self.release()
            raise

    def for_share(self) -> None:
        """Give the entry's lock back for the shard's own one; there is a folder for it by now.

        Raises:
            EntryLockedError: another process is the same shard.
            StorageError: the folder cannot be written.
        """
        assert self._own is not None, "the entry is built by one process"
        self._own.acquire(self._shard)
        self._whole.release(keep=True)

    def release(self) -> None:
        """Give all locks back; the entry's empty file stays while there is an entry.

        What a killed process left inside a complete entry goes first.
        """
        entry = self._entry
        if layout.proven_key(entry):
            shutil.rmtree(entry / layout.BUILDING, ignore_errors=True)
        if self._own is not None:
            self._own.release(keep=False)
        self._whole.release(keep=layout.remains(self._entry))

    def refuse_shards(self, but: str | None = None) -> None:
        """Refuse to go on while shards are at work; they take their locks under this one alone.

        Args:
            but: of how many shards those are that may go on.

        Raises:
            EntryLockedError: one is at work.
        """
        for file in matching(layout.shards_folder(self._entry), f"*{layout.LOCK}"):
            name = file.name.removesuffix(layout.LOCK)
            if but is None or _of_how_many(name) != but:
                other = _shard_file(self._entry, name)
                other.acquire(name)
                other.release(keep=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def _shard_file(entry: Path, shard: str) -> _OwnedFile:
    path = layout.shards_folder(entry) / f"{shard}{layout.LOCK}"
    what = f"shard {shard.replace('-of-', '/')} of {entry}"
    return _OwnedFile(path, path.with_name(f"{shard}{layout.OWNER}"), what)


def _of_how_many(shard: str) -> str:
    return shard.rpartition("-")[2]


def check_unlocked(entry: Path) -> None:
    """Refuse an entry that is being written; nothing is locked, and no file is made.

    Raises:
        EntryLockedError: a process is writing it.
    """
    # the name goes with the lock, so that only one that a kill left is probed
    if not layout.beside(entry, layout.OWNER).exists():
        return
    try:
        descriptor = os.open(layout.beside(entry, layout.LOCK), os.O_RDONLY)
    except OSError:  # there is no lock, or none that this user can take
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _locked(str(entry), layout.beside(entry, layout.OWNER)) from None
    finally:
        os.close(descriptor)


def tidy(entry: Path) -> None:
    """Remove what a killed process left of an entry that it had completed, if nobody writes it."""
    if layout.beside(entry, layout.OWNER).exists() or (entry / layout.BUILDING).exists():
        with suppress(EntryLockedError, StorageError):  # or this folder cannot be written
            EntryLock(entry).release()


def _locked(what: str, owner: Path) -> EntryLockedError:
    who = "another process (it has not written its name yet)"
    if holder := read_owner(owner):
        who = f"process {holder['pid']} on {holder['host']}, started {holder['started']}"
    return EntryLockedError(
        f"{what} is being written by {who}. Wait until it is done, or stop it and run this command "
        "again (finished units are kept)."
    )


def read_owner(file: Path) -> dict[str, Any] | None:
    """Return the host, process and start that an owner file names; None where it is none."""
    owner = read_object(file)
    return owner if owner is not None and owner.keys() - {"shard"} == _OWNER_FIELDS else None


def install(partial: Path, path: Path) -> None:
    """Rename a sealed folder to its final name, replacing an entry that is there."""
    replaced = layout.beside(path, layout.REPLACED)
    if not path.exists():
        partial.rename(path)
    elif _exchange(partial, path):
        partial.rename(replaced)  # the old entry, by now
    else:
        path.rename(replaced)
        partial.rename(path)
    sync_path(path.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in a single step; say whether the system can."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(second))
