"""One entry in the place of another: the renames, and what a reader finds meanwhile."""

import ctypes
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from probekit.errors import EntryError, EntryNotFoundError
from probekit.store.entry_names import REPLACED, beside
from probekit.store.files import sync_path

T = TypeVar("T")

_HERE = -100  # AT_FDCWD: paths are what they are in this process
_EXCHANGE = 2
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP}


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


def restore(path: Path) -> None:
    """Put back an old entry whose replacement was killed between two renames."""
    replaced = beside(path, REPLACED)
    if replaced.exists() and not path.exists():
        replaced.rename(path)
    elif replaced.exists():
        shutil.rmtree(replaced)


def standing(path: Path) -> Path:
    """Return where an entry is read: its folder, or the old one's between two renames."""
    replaced = beside(path, REPLACED)
    return replaced if not path.exists() and replaced.is_dir() else path


def read_standing(path: Path, read: Callable[[Path], T]) -> T:
    """Read an entry where it stands, and once more if another one took its place meanwhile.

    Args:
        path: the entry's final folder.
        read: receives the folder.

    Raises:
        EntryError: of ``read``, where the folder is still the same.
        EntryNotFoundError: likewise.
    """
    while True:
        folder = standing(path)
        before = _inode(folder)
        try:
            return read(folder)
        except (EntryError, EntryNotFoundError):
            if (standing(path), _inode(folder)) == (folder, before):
                raise


def _inode(folder: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


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
