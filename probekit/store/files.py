"""Files written whole or removed, and failures turned into errors that help."""

import errno
import mmap
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from uuid import uuid4

import numpy as np

from probekit.errors import StorageError

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_PERMISSION = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_FOLDER = {errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG}
_CACHED_ONLY = {errno.EINVAL, errno.EOPNOTSUPP}  # said by a file system without O_DIRECT
_UNCACHED_FLAG = os.O_DIRECT if sys.platform == "linux" else None


def write_whole(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write a file beside its place and rename it, so that it is never seen half-written.

    Processes of several machines may write the same file: the last one stays.
    """
    fresh = path.with_name(f"{path.name}.{uuid4().hex}.new")
    with fresh.open("wb") as sink:
        sink.write(data)
        if sync:
            sink.flush()
            os.fsync(sink.fileno())
    fresh.replace(path)


def remove_path(path: Path) -> None:
    """Remove a file, or a folder with all that is in it; links in it are not followed.

    Raises:
        StorageError: it cannot be removed.
    """
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{path} cannot be removed ({error}).") from error


def sync_path(path: Path) -> None:
    """Ask the operating system to put a file or folder on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def storage_errors(folder: Path, needed: int | None = None) -> Iterator[None]:
    """Turn the file system's refusals inside the block into `StorageError`.

    Args:
        folder: where the block writes, for the message.
        needed: bytes still to be written there, if known.

    Raises:
        StorageError: no space or quota left, no permission, or no folder; says what to do.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            wants = "" if needed is None else f"{needed / 1e9:.2f} GB still to write, "
            raise StorageError(
                f"cannot write to {folder}: {error.strerror} ({wants}{free_bytes(folder) / 1e9:.2f}"
                " GB free). Free some space and run the same command again (finished units are "
                "kept), or choose another folder with --cache ROOT."
            ) from error
        if error.errno in _NO_PERMISSION:
            raise StorageError(
                f"cannot write to {error.filename or folder}: {error.strerror}. Give this user "
                "write permission, or choose another folder with --cache ROOT."
            ) from error
        if error.errno in _NO_FOLDER:
            raise StorageError(
                f"cannot write to {folder}: {error.strerror} ({error.filename}). Choose another "
                "folder with --cache ROOT."
            ) from error
        raise


def free_bytes(folder: Path) -> int:
    """Return the free space of the file system that holds, or would hold, ``folder``."""
    return shutil.disk_usage(nearest(folder)).free


def nearest(folder: Path) -> Path:
    """Return a folder, or the first of its parents that exists."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    return there


def disk_bytes(folder: Path) -> int:
    """Return the bytes that a folder's files take on the disk, less what a sparse file leaves out.

    A folder that does not exist takes none.
    """
    return sum(
        os.lstat(os.path.join(inner, name)).st_blocks * 512
        for inner, _, files in os.walk(folder)
        for name in files
    )


class WholeFiles(threading.local):
    """Writes files whose bytes are there as a whole, of several threads at a time.

    Through the page cache, the processor copies every byte into pages that the system has yet to
    find, and then sends it to the disk; in a virtual machine that takes as long as some of the
    model's work beside it (``benchmarks/chunk_writing.py``). Past it the disk fetches the bytes by
    itself, and what others read stays in the cache. It fetches whole pages: bytes that do not begin
    with one are copied to room that each thread keeps while it lives.
    """

    _room: mmap.mmap | None = None

    def write(self, file: Path, data: memoryview, at: int | None = None) -> None:
        """Write a file, replacing one that is there, and wait until it is on the disk.

        Args:
            file: its path.
            data: its bytes, contiguous.
            at: where these bytes begin in a file that keeps its others; None is the whole file.

        Raises:
            OSError: the file system refuses.
        """
        data = data.cast("B")
        if not self._write_uncached(file, data, at):
            with _opened(file, at) as sink:
                while data:
                    data = data[sink.write(data) :]
                os.fsync(sink.fileno())

    def _write_uncached(self, file: Path, data: memoryview, at: int | None) -> bool:
        """Say whether the bytes could be written past the page cache, whole."""
        pages = len(data) % mmap.PAGESIZE == 0 == (at or 0) % mmap.PAGESIZE
        if _UNCACHED_FLAG is None or not len(data) or not pages:
            return False
        if np.frombuffer(data, np.uint8).ctypes.data % mmap.PAGESIZE:
            if self._room is None or len(self._room) < len(data):
                self._room = mmap.mmap(-1, len(data))
            copied = memoryview(self._room)[: len(data)]
            copied[:] = data
            data = copied
        try:
            with _opened(file, at, _UNCACHED_FLAG) as sink:
                whole = os.write(sink.fileno(), data) == len(data)
                os.fsync(sink.fileno())
        except OSError as error:
            if error.errno in _CACHED_ONLY:
                return False
            raise
        return whole


def _opened(file: Path, at: int | None, flags: int = 0) -> FileIO:
    """Open a file to write from ``at`` on: emptied first, unless it keeps its other bytes."""
    flags |= os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if at is None else 0)
    sink = os.fdopen(os.open(file, flags, 0o666), "wb", buffering=0)
    sink.seek(at or 0)
    return sink
