"""Files written whole, read without trust or removed, and failures turned into errors that help."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from probekit.errors import StorageError

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_PERMISSION = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_FOLDER = {errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG}


def write_whole(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write a file beside its place and rename it, so that it is never seen half-written."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    with fresh.open("wb") as sink:
        sink.write(data)
        if sync:
            sink.flush()
            os.fsync(sink.fileno())
    fresh.replace(path)


def read_object(file: Path) -> dict[str, Any] | None:
    """Return the JSON object that a file holds, or None: it may be missing, torn or anybody's."""
    try:
        values = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


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
            raise StorageError(_no_space(folder, needed, error)) from error
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


def _no_space(folder: Path, needed: int | None, error: OSError) -> str:
    wants = "" if needed is None else f"{needed / 1e9:.2f} GB still to write, "
    return (
        f"cannot write to {folder}: {error.strerror} ({wants}{free_bytes(folder) / 1e9:.2f} GB "
        "free). Free some space and run the same command again (finished units are kept), or "
        "choose another folder with --cache ROOT."
    )
