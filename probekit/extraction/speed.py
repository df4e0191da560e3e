"""How fast a disk takes and gives bytes, measured on a small file."""

import mmap
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from probekit.errors import StorageError
from probekit.store.files import WholeFiles

_BYTES = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class DiskSpeed:
    """Bytes per second.

    Attributes:
        write: onto the disk, past the page cache where the system can; HDF5 goes through it, and
            may take longer.
        read: from the disk, or from memory on systems that cannot drop a file from it.
        cached: from the page cache, where a file stays while there is memory for it.
    """

    write: float
    read: float
    cached: float


def measure_disk(folder: Path) -> DiskSpeed:
    """Write 64 MiB beside a folder and read them back; nothing stays.

    Args:
        folder: where something is to be written; parents that do not exist yet are skipped.

    Raises:
        StorageError: nothing can be written there.
    """
    existing = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    content = mmap.mmap(-1, _BYTES)  # begins with a page, as extraction's chunks do
    content[:] = os.urandom(_BYTES)
    try:
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".probekit-") as file:
            write = _seconds(lambda: WholeFiles().write(Path(file.name), memoryview(content)))
            _drop(file.fileno())
            read = _seconds(lambda: _read(Path(file.name)))
            cached = _seconds(lambda: _read(Path(file.name)))
    except OSError as error:
        raise StorageError(
            f"cannot write to {existing}: {error.strerror}. Choose another folder with --cache."
        ) from error
    return DiskSpeed(write=_BYTES / write, read=_BYTES / read, cached=_BYTES / cached)


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _drop(descriptor: int) -> None:
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _read(path: Path) -> None:
    path.read_bytes()
