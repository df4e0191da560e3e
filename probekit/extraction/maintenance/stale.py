"""What is left over in a cache: parts of probekit that no entry needs any more."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from probekit.errors import EntryError, EntryLockedError
from probekit.extraction.maintenance.orphans import orphaned_labels
from probekit.store.files import disk_bytes, remove_path
from probekit.store.layout import (
    BUILDING,
    LABELS,
    LOCK,
    MANIFEST,
    OWNER,
    PARTIAL,
    PLAN,
    REPLACED,
    proven_key,
    remains,
    split_and_key,
)
from probekit.store.lock import EntryLock, read_owner
from probekit.store.manifest import Manifest


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
            remove_path(self.path)
            return True
        try:
            with EntryLock(self.entry):  # with it goes what belongs to a lock of no entry
                remove_path(self.path)
        except EntryLockedError:
            return False
        return True


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
            if whole and not building.is_symlink() and proven_key(building / PLAN, path):
                yield building, path, "what a kill left of the building of an entry"


def _is_replaced(path: Path, entry: Path) -> bool:
    return (entry / MANIFEST).is_file() and bool(proven_key(path / MANIFEST, entry))


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
    return read_owner(path) is not None and not remains(entry)


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
