"""Write files and whole parts of them onto the disk, past the page cache where the system can."""

import errno
import mmap
import os
import sys
import threading
from pathlib import Path

import numpy as np

_UNCACHED_FLAG = os.O_DIRECT if sys.platform == "linux" else None


class WholeFiles:
    """Writes files whose bytes are there as a whole, of several threads at a time.

    Through the page cache, the processor copies every byte into pages that the system has yet to
    find, and then sends it to the disk; in a virtual machine that takes as long as some of the
    model's work beside it (``benchmarks/chunk_writing.py``). Past it the disk fetches the bytes by
    itself, and what others read stays in the cache. It fetches whole pages: bytes that do not begin
    with one are copied to room that each thread keeps while it lives.
    """

    def __init__(self) -> None:
        """Hold no room yet."""
        self._room = _Room()

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
            _write_cached(file, data, at)

    def _write_uncached(self, file: Path, data: memoryview, at: int | None) -> bool:
        """Say whether the bytes could be written past the page cache, whole."""
        pages = len(data) % mmap.PAGESIZE == 0 == (at or 0) % mmap.PAGESIZE
        if _UNCACHED_FLAG is None or not len(data) or not pages:
            return False
        try:
            descriptor = os.open(file, _flags(at) | _UNCACHED_FLAG, 0o666)
        except OSError as error:
            return _refused(error)
        try:
            os.lseek(descriptor, at or 0, os.SEEK_SET)
            whole = os.write(descriptor, self._page_aligned(data)) == len(data)
            os.fsync(descriptor)
        except OSError as error:
            return _refused(error)
        finally:
            os.close(descriptor)
        return whole

    def _page_aligned(self, data: memoryview) -> memoryview:
        """Return bytes that begin with a page: as they are, or copied to this thread's room."""
        if np.frombuffer(data, np.uint8).ctypes.data % mmap.PAGESIZE == 0:
            return data
        if self._room.memory is None or len(self._room.memory) < len(data):
            self._room.memory = mmap.mmap(-1, len(data))
        copied = memoryview(self._room.memory)[: len(data)]
        copied[:] = data
        return copied


class _Room(threading.local):
    memory: mmap.mmap | None = None


def _refused(error: OSError) -> bool:
    """Return False where the file system cannot write past the cache; raise other errors."""
    if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise error


def _flags(at: int | None) -> int:
    """Return how a file is opened: emptied first, unless it keeps its other bytes."""
    return os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if at is None else 0)


def _write_cached(file: Path, data: memoryview, at: int | None) -> None:
    with os.fdopen(os.open(file, _flags(at), 0o666), "wb", buffering=0) as sink:
        sink.seek(at or 0)
        while data:
            data = data[sink.write(data) :]
        os.fsync(sink.fileno())
