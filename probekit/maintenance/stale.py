"""What is left over in a cache: parts of probekit that no entry needs any more."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from probekit.errors import EntryError, EntryLockedError, StorageError
from probekit.maintenance.orphans import orphaned_labels
from probekit.store.asked import asked_key
from probekit.store.files import disk_bytes
from probekit.store.layout import split_and_key
from probekit.store.lock import EntryLock
from probekit.store.manifest import Manifest
from probekit.store.names import (
    BUILDING,
    LABELS,
    LOCK,
    MANIFEST,
    OWNER,
    PARTIAL,
    PLAN,
    REPLACED,
    remains,
)


@dataclass(frozen=True)
class Stale:
    """A file or folder that is provably probekit's, and that nothing needs.

    Attributes:
        path: where it lies, no link.
        entry: the final folder of the entry that it belongs or belonged to; for labels, their task.
        what: what it is, in words.
        nbytes: what it takes on the disk.
    """

    path: Path
    entry: Path
    what: str
    nbytes: int

    def remove(self) -> bool:
        """Remove it, unless somebody holds the entry's lock; say whether it is gone.

        Raises:
            StorageError: it cannot be removed.
        """
        if self.path.parent.name == LABELS:
            self._remove()
            return True
        try:
            lock = EntryLock(self.entry)
        except EntryLockedError:
            return False
        try:
            self._remove()
        finally:
            lock.release()  # and with it what belongs to a lock of no entry
        return True

    def _remove(self) -> None:
        try:
            if self.path.is_dir():
                shutil.rmtree(self.path)
            else:
                self.path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be removed ({error}).") from error


def find_stale(root: Path) -> list[Stale]:
    """Return what is left over under a cache root, sorted by path; links are not followed."""
    found = [
        Stale(path, entry, what, disk_bytes(path) if path.is_dir() else path.stat().st_size)
        for folder in root.glob("*/*")
        if folder.is_dir() and not (folder.is_symlink() or folder.parent.is_symlink())
        for path, entry, what in [*_beside_entries(folder), *_labels(folder)]
    ]
    return sorted(found, key=lambda stale: stale.path)


def remove_stale(root: Path, found: Sequence[Stale]) -> Iterator[tuple[Stale, bool]]:
    """Remove what was found, and yield each with whether it is gone: what is held stays.

    What an extraction has come to need since then stays as well.

    Raises:
        StorageError: something cannot be removed.
    """
    still = set(find_stale(root))
    for stale in found:
        yield stale, stale in still and stale.remove()


def _beside_entries(folder: Path) -> Iterator[tuple[Path, Path, str]]:
    """Yield what entries of one task left over: path, entry and what it is."""
    for path in folder.iterdir():
        for suffix, (what, is_ours) in _KINDS.items():
            entry = path.with_name(path.name.removesuffix(suffix))
            if path.name.endswith(suffix) and split_and_key(entry.name) and not path.is_symlink():
                if is_ours(path, entry):
                    yield path, entry, what
                break
        else:
            building = path / BUILDING
            whole = (path / MANIFEST).is_file() and not path.is_symlink()
            if whole and not building.is_symlink() and _is_of(building / PLAN, path):
                yield building, path, "what a kill left of the building of an entry"


def _is_replaced(path: Path, entry: Path) -> bool:
    return (entry / MANIFEST).is_file() and _is_of(path / MANIFEST, entry)


def _is_old_entry(path: Path, entry: Path) -> bool:
    """Say whether a partial folder is an old entry that was to be renamed, and no begun one."""
    if (path / BUILDING).exists() or not _is_replaced(path, entry):
        return False
    try:
        Manifest.from_json((path / MANIFEST).read_text("utf-8"), str(path))
    except (EntryError, OSError, UnicodeDecodeError):
        return False
    return True


def _is_lock(path: Path, entry: Path) -> bool:
    return path.is_file() and not path.stat().st_size and not remains(entry)


def _is_owner(path: Path, entry: Path) -> bool:
    try:
        owner = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    ours = isinstance(owner, dict) and owner.keys() == {"host", "pid", "started"}
    return ours and not remains(entry)


_KINDS: dict[str, tuple[str, Callable[[Path, Path], bool]]] = {
    REPLACED: ("an entry that was replaced", _is_replaced),
    PARTIAL: ("an entry that was replaced", _is_old_entry),
    OWNER: ("the holder's name of a lock of no entry", _is_owner),
    LOCK: ("a lock of no entry", _is_lock),
}


def _labels(folder: Path) -> Iterator[tuple[Path, Path, str]]:
    """Yield the label files of texts that have no entry any more."""
    for file in orphaned_labels(folder):
        yield file.path, folder, f"labels of split {file.split}, of a text without an entry"


def _is_of(file: Path, entry: Path) -> bool:
    """Say whether a manifest or plan asks for what an entry is named after."""
    named = split_and_key(entry.name)
    return named is not None and asked_key(file).startswith(named[1])
