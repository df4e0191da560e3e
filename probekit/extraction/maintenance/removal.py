"""What may go from a cache: entries, and parts of probekit that no entry needs any more.

Nothing goes that is not provably probekit's; links are not followed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from probekit.base.replacing import is_left, matching, remove_left
from probekit.errors import EntryError, EntryLockedError, EntryNotFoundError, OptionError
from probekit.store.files import disk_bytes, remove_path
from probekit.store.labels import LabelFile, read_label_file
from probekit.store.layout import (
    BUILDING,
    LABELS,
    LOCK,
    MANIFEST,
    OWNER,
    PARTIAL,
    PLAN,
    REPLACED,
    asked_of,
    proven_key,
    remains,
    split_and_key,
)
from probekit.store.lock import EntryLock, read_owner
from probekit.store.manifest import Manifest
from probekit.store.unfinished import refuse_foreign


@dataclass(frozen=True)
class Removable:
    """A folder that is an entry of probekit, whole or unfinished, and may be removed.

    Attributes:
        path: the folder, no link.
        complete: whether it is finished.
        nbytes: what its files take on the disk.
    """

    path: Path
    complete: bool
    nbytes: int

    @classmethod
    def of(cls, path: Path) -> "Removable":
        """Prove that a folder is an entry: what it was asked for gives the key in its name.

        Raises:
            EntryNotFoundError: there is no such folder.
            OptionError: it is a link, or no entry, or something lies in it that is not of it.
        """
        if path.is_symlink():
            raise OptionError(f"{path} is a link, and links are not followed: remove it yourself.")
        if not path.is_dir():
            raise EntryNotFoundError(f"no cache entry at {path}. `probekit cache ls` lists them.")
        complete = not path.name.endswith(PARTIAL)
        if not proven_key(path, MANIFEST if complete else PLAN):
            raise OptionError(
                f"{path} holds no entry of that name, so nothing was removed. If you do not need "
                "it, remove it yourself."
            )
        refuse_foreign(path)
        return cls(path, complete, disk_bytes(path))

    def remove(self) -> None:
        """Remove the labels of its text that no other entry needs, and then the entry.

        So what stops half-way is finished by the same command. Links in it go, what they point to
        stays.

        Raises:
            EntryLockedError: another process is writing it.
            StorageError: a file of it cannot be removed.
        """
        text = _text_of(self.path)
        with EntryLock(self.path.with_name(self.path.name.removesuffix(PARTIAL))):
            for file in orphaned_labels(self.path.parent, without=self.path):
                if file.of == text:
                    remove_path(file.path)
            remove_path(self.path)


def finish_removals(tasks: Iterable[Path]) -> int:
    """Remove what killed removals left in the folders of some tasks; return how much it was.

    Raises:
        StorageError: it cannot be removed.
    """
    total = 0
    for task in tasks:
        if not task.is_dir():
            continue
        count = remove_left(task) + remove_left(task / LABELS)
        locks = [left for left in _left_over(task) if left.path.name.endswith((LOCK, OWNER))]
        total += count + sum(left.remove() for left in locks)
    return total


@dataclass(frozen=True)
class Stale:
    """A file or folder that is provably probekit's, and that nothing needs.

    Attributes:
        path: where it lies, no link.
        entry: the final folder of the entry that it belongs or belonged to; for labels, their task.
        what: what it is, in words.
    """

    path: Path
    entry: Path
    what: str

    @property
    def nbytes(self) -> int:
        """Bytes that it takes on the disk; none where another process has removed it."""
        with suppress(FileNotFoundError):
            return disk_bytes(self.path) if self.path.is_dir() else self.path.stat().st_size
        return 0

    def remove(self) -> bool:
        """Remove it, unless somebody holds the entry's lock; say whether it is gone.

        Raises:
            StorageError: it cannot be removed.
        """
        if self.path.parent.name == LABELS:
            remove_path(self.path)
            return True
        if self.path == self.entry:
            return remove_left(self.path.parent) > 0 or not self.path.exists()
        try:
            with EntryLock(self.entry):  # with it goes what belongs to a lock of no entry
                remove_path(self.path)
        except EntryLockedError:
            return False
        return True


def find_stale(root: Path) -> list[Stale]:
    """Return what is left over under a cache root, sorted by path; links are not followed."""
    found = list[Stale]()
    for task in matching(root, "*/*"):
        if task.is_dir() and not (task.is_symlink() or task.parent.is_symlink()):
            found += _left_over(task)
            for file in orphaned_labels(task):
                what = f"labels of split {file.split} of a text without an entry"
                found.append(Stale(file.path, task, what))
    return sorted(found, key=lambda stale: stale.path)


def remove_stale(root: Path, chosen: Sequence[Stale]) -> Iterator[tuple[Stale, bool]]:
    """Remove what was found, and yield each with whether it is gone: what is held stays.

    What an extraction has come to need since then stays as well.

    Raises:
        StorageError: something cannot be removed.
    """
    still = set(find_stale(root))
    for stale in chosen:
        yield stale, stale in still and stale.remove()


def _left_over(folder: Path) -> Iterator[Stale]:
    """Yield what entries of one task left over, but for labels."""
    for path in [*matching(folder), *matching(folder / LABELS, ".*")]:
        if is_left(path):
            yield Stale(path, path, "half written or half removed when a process was killed")
            continue
        for suffix, (what, is_ours) in _SUFFIXES.items():
            name = path.name.removesuffix(suffix)
            if path.name.endswith(suffix) and split_and_key(name) and not path.is_symlink():
                if is_ours(path, entry := path.with_name(name)):
                    yield Stale(path, entry, what)
                break
        else:
            building = path / BUILDING
            whole = (path / MANIFEST).is_file() and not path.is_symlink()
            if whole and not building.is_symlink() and proven_key(path, PLAN):
                yield Stale(
                    building, path, "left by a process that was killed while it built an entry"
                )


def _is_replaced(path: Path, entry: Path) -> bool:
    return (entry / MANIFEST).is_file() and bool(proven_key(path))


def _is_old_entry(path: Path, entry: Path) -> bool:
    """Say whether a partial folder is an old entry that was to be renamed, and no begun one."""
    if (path / BUILDING).exists() or not _is_replaced(path, entry):
        return False
    try:
        Manifest.from_json((path / MANIFEST).read_text("utf-8"), str(path))
    except (EntryError, OSError, UnicodeDecodeError):
        return False
    return True


_SUFFIXES: dict[str, tuple[str, Callable[[Path, Path], bool]]] = {
    REPLACED: ("an entry that was replaced", _is_replaced),
    PARTIAL: ("an entry that was replaced", _is_old_entry),
    OWNER: (
        "the owner file of a lock without an entry",
        lambda path, entry: read_owner(path) is not None and not remains(entry),
    ),
    LOCK: (
        "a lock without an entry",
        lambda path, entry: path.is_file() and not path.stat().st_size and not remains(entry),
    ),
}


def orphaned_labels(task: Path, without: Path | None = None) -> list[LabelFile]:
    """Return the label files of a task whose text no entry holds.

    Args:
        task: the task's folder in a cache.
        without: an entry that does not count, as it is about to go.
    """
    folders = (folder for folder in matching(task) if folder.is_dir() and folder != without)
    held = {text for folder in folders if (text := _text_of(folder))}
    unknown = {split for split, text in held if text is None}
    paths = [] if (task / LABELS).is_symlink() else matching(task / LABELS, "*.parquet")
    files = []
    for path in paths:
        with suppress(EntryError):  # not provably ours
            files += [] if path.is_symlink() else [read_label_file(path)]
    return [file for file in files if file.of not in held and file.split not in unknown]


def _text_of(folder: Path) -> tuple[str, str | None] | None:
    """Return split and text of an entry: whole, unfinished or being replaced.

    The text is None where the folder does not say it (it is damaged): it may be any. Nothing is
    returned for a folder of another name than an entry has.
    """
    named = split_and_key(folder.name.removesuffix(REPLACED))
    if named is None:
        return None
    text = asked_of(folder).get("text")
    return named[0], text if isinstance(text, str) else None
