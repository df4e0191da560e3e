"""Files that take their place whole: each is written in a folder of its own, synced, then moved.

So a reader finds the old file or the new one, after a power cut as well. What a kill leaves is such
a folder: its name is nobody else's and nobody holds its lock, so the next writer removes it.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir
from uuid import uuid4

_NAME = re.compile(r"\.[0-9a-f]{32}\.(probekit|making)")
"""Of what is locked while it is in use, and of an empty folder that is not locked yet."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write a file to, which takes the place of another one when the block ends.

    Folders are created. A block that raises leaves what was there.

    Args:
        path: of the file; what is given has its name.

    Raises:
        OSError: the file system refuses.
    """
    with workshop(path.parent) as folder:
        yield folder / path.name
        put(folder / path.name, path)


def put(made: Path, path: Path) -> None:
    """Put a file or folder on the disk, and then into its place.

    Args:
        made: a file or a folder.
        path: where it goes; a file there is replaced, as is an empty folder.
    """
    for item in [*made.rglob("*"), made]:
        sync_path(item)
    made.replace(path)
    sync_path(path.parent)


def put_new(made: Path, path: Path) -> bool:
    """Put a file into its place, unless one is there; say whether it was put.

    If several try at once, one succeeds. On a file system without hard links, several may.

    Raises:
        OSError: the file system refuses.
    """
    sync_path(made)
    try:
        os.link(made, path)
    except FileExistsError:
        return False
    except OSError:  # it has no hard links, or none between folders
        if path.exists():
            return False
        made.replace(path)
    sync_path(path.parent)
    return True


def standing_files(folder: Path, suffix: str) -> list[Path]:
    """Return the files of a suffix below a folder, sorted, without what is being written there.

    Folders that others remove meanwhile are passed over.
    """
    files = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_workshop(name)]
        files += [Path(parent, name) for name in names if name.endswith(suffix)]
    return sorted(files)


def matching(folder: Path, pattern: str = "*") -> list[Path]:
    """Return what matches a pattern in a folder, sorted; what others remove meanwhile is left out.

    Raises:
        OSError: a folder cannot be read.
    """
    while True:
        with suppress(FileNotFoundError, NotADirectoryError):  # removed since it was listed
            return sorted(folder.glob(pattern))


def is_workshop(name: str) -> bool:
    """Say whether a folder is called as what is being written is, or what a kill left of it."""
    return _NAME.fullmatch(name) is not None


def sync_path(path: Path) -> None:
    """Ask the operating system to put a file or folder on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a `workshop` among the system's temporary files (``TMPDIR``), for this user alone.

    Raises:
        OSError: the file system refuses.
    """
    with workshop(Path(gettempdir()), mode=0o700) as folder:
        yield folder


@contextmanager
def workshop(parent: Path, mode: int = 0o777) -> Iterator[Path]:
    """Make a folder in another one for what is not whole yet; it is gone when the block ends.

    What a kill left of others in the same place is removed.

    Args:
        parent: created where it does not exist.
        mode: who may enter the new folder, as for `os.mkdir`.

    Raises:
        OSError: the file system refuses.
    """
    parent.mkdir(parents=True, exist_ok=True)
    remove_left(parent)
    with ExitStack() as stack:
        folder = None
        while folder is None:
            making = parent / f".{uuid4().hex}.making"
            making.mkdir(mode=mode)
            with suppress(FileNotFoundError):  # somebody took it for left
                folder = stack.enter_context(_owned(making))
        yield folder


def discard(folder: Path) -> None:
    """Remove a folder: at once for whoever looks for it, and then its files.

    Raises:
        OSError: the file system refuses; what is left goes with the next `remove_left`.
    """
    remove_left(folder.parent)
    with _owned(folder) as away:
        shutil.rmtree(away)


def remove_left(parent: Path) -> int:
    """Remove what killed processes left in a folder, of `workshop` and `discard`; say how much."""
    left = [path for path in matching(parent, ".*") if is_left(path)]
    for path in left:
        if path.suffix == ".probekit":
            shutil.rmtree(path, ignore_errors=True)
        else:  # its maker, if it lives, makes another one
            with suppress(OSError):
                path.rmdir()
    return len(left)


@contextmanager
def _owned(folder: Path) -> Iterator[Path]:
    """Give a folder a name and a lock that say that it is this process's, and remove it."""
    descriptor = os.open(folder, os.O_RDONLY)
    named = folder.with_name(f".{uuid4().hex}.probekit")
    try:
        with suppress(OSError):  # without locks nothing counts as left
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # who asks whether it is left holds it briefly
        folder.rename(named)
        yield named
    finally:
        os.close(descriptor)
        shutil.rmtree(named, ignore_errors=True)


def is_left(path: Path) -> bool:
    """Say whether a path is what a killed process left: it has such a name, and no lock."""
    if not _NAME.fullmatch(path.name):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path.suffix == ".probekit" or not any(path.iterdir())
    except OSError:  # somebody writes there
        return False
    finally:
        os.close(descriptor)
