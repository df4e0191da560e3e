"""A mirror: chunks of object stores, kept on a disk of this machine, as many as there is room for.

A chunk is a file, written beside its place and renamed when it is whole, so that several processes
may use one mirror. It is not waited for until it is on the disk: whoever finds a chunk compares it
with its checksum before it is used for the first time. What was not used for longest goes first; a
process that has a chunk mapped keeps it until it lets go.
"""

import fcntl
import logging
import os
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from probekit.base.fingerprint import digest
from probekit.base.notices import warn_once
from probekit.store.files import storage_errors, write_whole

logger = logging.getLogger(__name__)

_LOCK = ".lock"
_URL = "url.txt"
_OPTION = "--mirror DIR"
_NEW = ".new"
_TORN_AFTER = 3600  # seconds after which nobody writes it any more
_LEFT_FREE = 0.1
"""Of the disk, where nothing says how large a mirror may be."""

_NO_ROOM = (
    "--mirror %s keeps nothing: less than a tenth of its disk is free. Make room there, or say how "
    "much it may hold: --mirror-size 20GB."
)

_FULL = 0.95
"""Of what it may hold, what is left after something has gone."""

_LOOKED_EVERY = 1 / 64
"""Of what it may hold, the bytes after which a process looks how much it holds."""


@dataclass(frozen=True)
class Mirror:
    """Where chunks are kept, and how many.

    Attributes:
        folder: on a disk of this machine; made when it is needed.
        most_bytes: what its chunks may take; None leaves a tenth of the disk free.
    """

    folder: Path
    most_bytes: int | None = None

    def bound(self) -> int:
        """Return the bytes that its chunks may take now."""
        if self.most_bytes is not None:
            return self.most_bytes
        disk = shutil.disk_usage(self.folder)
        return max(self._held() + disk.free - int(_LEFT_FREE * disk.total), 0)

    def _held(self) -> int:
        return sum(size for _, size, _ in chunk_files(self.folder))


class MirrorFolder:
    """The chunks of one generation in a mirror."""

    def __init__(self, mirror: Mirror, url: str) -> None:
        """Make the folder.

        Args:
            mirror: where it is.
            url: of the generation.

        Raises:
            StorageError: the mirror cannot be written.
        """
        self._mirror = mirror
        self._folder = mirror.folder / _folder_name(url)
        self._since, self._lock = 0, threading.Lock()
        with storage_errors(mirror.folder, option=_OPTION):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._folder / _URL, url.encode())
            self.most_bytes = mirror.bound()
        if self.most_bytes == 0:
            warn_once(logger, _NO_ROOM, mirror.folder)

    def find(self, array: str, at: tuple[int, int], nbytes: int) -> Path | None:
        """Return the file of a chunk, and note that it is used; None where it is not there."""
        file = self._file(array, at)
        try:
            if os.stat(file).st_size != nbytes:
                return None
            os.utime(file)
        except OSError:
            return None
        return file

    def keep(self, array: str, at: tuple[int, int], data: bytes) -> Path:
        """Write a chunk, and make room for it; return its file.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        self._make_room(len(data))
        file = self._file(array, at)
        fresh = file.with_name(f"{file.name}.{uuid4().hex}{_NEW}")
        with storage_errors(self._folder, len(data), _OPTION):
            file.parent.mkdir(exist_ok=True)
            fresh.write_bytes(data)
            fresh.replace(file)
        return file

    def _file(self, array: str, at: tuple[int, int]) -> Path:
        return self._folder / array / f"{at[0]}.{at[1]}"

    def _make_room(self, nbytes: int) -> None:
        """Remove what was not used for longest where there would be too much; now and then."""
        with self._lock:
            first, self._since = not self._since, self._since + nbytes
            if not first and self._since < self.most_bytes * _LOOKED_EVERY:
                return
            self._since = nbytes
        with open(self._mirror.folder / _LOCK, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = sorted(chunk_files(self._mirror.folder))
            held = nbytes + sum(size for _, size, _ in found)
            if held <= self.most_bytes:
                return
            for _, size, file in found:
                if held <= _FULL * self.most_bytes:
                    break
                with suppress(FileNotFoundError):
                    os.unlink(file)
                held -= size


def chunk_files(folder: Path) -> list[tuple[float, int, str]]:
    """Return when each chunk of a mirror was used last, its bytes, and its file.

    What a kill left of one is among them; what is being written is not, nor is any file of others
    that lies in the folder.
    """
    found = []
    for inside, _, names in (step for own in _generations(folder) for step in os.walk(own)):
        for name in names:
            if name != _URL:
                with suppress(FileNotFoundError):
                    told = os.stat(file := os.path.join(inside, name))
                    if not name.endswith(_NEW) or time.time() - told.st_mtime > _TORN_AFTER:
                        found.append((told.st_mtime, told.st_size, file))
    return found


def _generations(folder: Path) -> list[Path]:
    """Return the folders that a mirror has made: each is called after the URL that it keeps."""
    return [url.parent for url in folder.glob(f"*/{_URL}") if url.parent.name == _name_of(url)]


def _name_of(url: Path) -> str:
    try:
        return _folder_name(url.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):  # somebody else's
        return ""


def _folder_name(url: str) -> str:
    return digest(url)[:16]
