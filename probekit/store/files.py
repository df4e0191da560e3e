"""Files written whole or removed, and failures turned into errors that help."""

import errno
import mmap
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path, PurePosixPath

import numpy as np
import xxhash

from probekit.base import replacing
from probekit.base.notices import human_bytes
from probekit.base.registry import PathName
from probekit.errors import OptionError, StorageError

NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_PERMISSION = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_FOLDER = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG}
_CACHED_ONLY = {errno.EINVAL, errno.EOPNOTSUPP}  # said by a file system without O_DIRECT
_UNCACHED_FLAG = os.O_DIRECT if sys.platform == "linux" else None

_URL = re.compile(r"[a-z][a-z0-9+.-]+:/.*", re.IGNORECASE)


checksum = xxhash.xxh3_128_hexdigest
"""The 128 bits of XXH3 (32 hex digits) over the bytes of a chunk.

It finds damage, not forgery, and takes a small part of the time of sha256, so that writing and
verifying go as fast as the disk (``benchmarks/chunk_writing.py``).
"""


def typed_path(typed: PathName) -> Path:
    """Return the path that a user names, with ``~`` read.

    Raises:
        OptionError: it is empty, or a URL.
    """
    text = os.fspath(typed)
    if not text:  # of which a path makes the folder that one is in: a variable is not set
        raise OptionError("the path is empty: name a folder.")
    if _URL.fullmatch(text):
        raise OptionError(
            f"{typed} is a URL, but a cache is a folder. `probekit cache pull URL` brings entries "
            "into one, and `probekit cache push` sends them to a URL."
        )
    try:
        return Path(typed).expanduser()
    except RuntimeError as error:  # of ~ and a name
        raise OptionError(f"{typed}: {error}") from error


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is never seen half-written, and is on the disk afterwards.

    Processes of several machines may write the same file: the last one stays.
    """
    with replacing.replacing(path) as fresh:
        fresh.write_bytes(data)


def remove_path(path: Path) -> None:
    """Remove a file, or a folder as a whole; links in it are not followed.

    Raises:
        StorageError: it cannot be removed.
    """
    try:
        if path.is_dir() and not path.is_symlink():
            replacing.discard(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{path} cannot be removed ({error}).") from error


@contextmanager
def storage_errors(
    folder: Path, needed: int | None = None, option: str = "--cache ROOT"
) -> Iterator[None]:
    """Turn the file system's refusals inside the block into `StorageError`.

    Args:
        folder: where the block writes, for the message.
        needed: bytes still to be written there, if known.
        option: names another folder on the command line.

    Raises:
        StorageError: no space or quota left, no permission, or no folder; says what to do.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            wants = "" if needed is None else f"{needed / 1e9:.2f} GB still to write, "
            raise StorageError(
                f"cannot write to {folder}: {error.strerror} ({wants}{free_bytes(folder) / 1e9:.2f}"
                " GB free). Free some space and run the same command again (finished units are "
                f"kept), or choose another folder with {option}."
            ) from error
        if error.errno in _NO_PERMISSION:
            raise StorageError(
                f"cannot write to {error.filename or folder}: {error.strerror}. Give this user "
                f"write permission, or choose another folder with {option}."
            ) from error
        if error.errno in _NO_FOLDER:
            raise StorageError(
                f"cannot write to {folder}: {error.strerror} ({error.filename}). Choose another "
                f"folder with {option}."
            ) from error
        raise


def free_bytes(folder: Path) -> int:
    """Return the free space of the file system that holds, or would hold, ``folder``."""
    return shutil.disk_usage(nearest(folder)).free


def check_room(folder: Path, needed: int, what: str, advice: str) -> None:
    """Refuse to begin where the disk cannot hold what is to be written.

    Args:
        folder: where it will be; it need not exist yet.
        needed: bytes still to be written.
        what: is written, for the message, such as ``this copy``.
        advice: for the message: what to do, beside making room.

    Raises:
        StorageError: fewer than ``needed`` bytes are free.
    """
    if needed > (free := free_bytes(folder)):
        raise StorageError(
            f"the disk of {nearest(folder)} has {human_bytes(free)} free, and {what} writes "
            f"{human_bytes(needed)}. Free some space, or {advice}."
        )


def nearest(folder: Path) -> Path:
    """Return a folder, or the first of its parents that exists."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    return there


def disk_bytes(folder: Path) -> int:
    """Return the bytes that a folder's files take on the disk, less what a sparse file leaves out.

    A folder that does not exist takes none, nor does what others remove meanwhile.
    """
    total = 0
    for inner, _, files in os.walk(folder):
        for name in files:
            with suppress(FileNotFoundError, NotADirectoryError):
                total += os.lstat(os.path.join(inner, name)).st_blocks * 512
    return total


def plain_path(path: Path) -> Path:
    """Return a path without ``.`` and ``..`` in it, from the root; links in it are not followed."""
    return Path(os.path.abspath(path))


def walk_files(folder: Path) -> Iterator[PurePosixPath]:
    """Yield the files below a folder, and links to folders, by their paths from it."""
    for inside, folders, files in os.walk(folder):
        # a link may lead out of the entry
        linked = [name for name in folders if os.path.islink(os.path.join(inside, name))]
        for name in sorted([*files, *linked]):
            yield PurePosixPath(Path(inside, name).relative_to(folder).as_posix())


def file_sizes(files: Sequence[str]) -> list[int]:
    """Return the size of each file; -1 where it is missing."""
    sizes = [-1] * len(files)
    for index, file in enumerate(files):
        with suppress(OSError):
            sizes[index] = os.stat(file).st_size
    return sizes


def read_span(file: str, start: int, nbytes: int) -> bytes:
    """Return bytes of a file: fewer where it ends before, and none where it is missing."""
    if not nbytes:
        return b""
    with suppress(FileNotFoundError, IsADirectoryError), open(file, "rb", buffering=0) as source:
        data = b""
        while more := os.pread(source.fileno(), nbytes - len(data), start + len(data)):
            data += more  # Linux reads 2 GiB at a time
        return data
    return b""


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
