"""Write whole files onto the disk, past the page cache where the system can."""

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

    def write(self, file: Path, data: memoryview) -> None:
        """Write a file, replacing one that is there, and wait until it is on the disk.

        Args:
            file: its path.
            data: its bytes, contiguous.

        Raises:
            OSError: the file system refuses.
        """
        data = data.cast("B")
        if not self._write_uncached(file, data):
            _write_cached(file, data)

    def _write_uncached(self, file: Path, data: memoryview) -> bool:
        """Say whether the file could be written past the page cache, whole."""
        if _UNCACHED_FLAG is None or not len(data) or len(data) % mmap.PAGESIZE:
            return False
        try:
            descriptor = os.open(
                file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _UNCACHED_FLAG, 0o666
            )
        except OSError as error:
            return _refused(error)
        try:
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


def _write_cached(file: Path, data: memoryview) -> None:
    with open(file, "wb", buffering=0) as sink:
        while data:
            data = data[sink.write(data) :]
        os.fsync(sink.fileno())
