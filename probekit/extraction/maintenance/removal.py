"""Remove entries, and nothing that is not provably one."""

from dataclasses import dataclass
from pathlib import Path

from probekit.errors import EntryNotFoundError, OptionError
from probekit.extraction.maintenance.orphans import orphaned_labels
from probekit.store.backends import BACKENDS
from probekit.store.files import disk_bytes, remove_path
from probekit.store.layout import (
    BACKBONE,
    BUILDING,
    CHECKSUMS,
    EXAMPLES,
    MANIFEST,
    PARTIAL,
    PLAN,
    asked_of,
    proven_key,
    split_and_key,
)
from probekit.store.lock import EntryLock

_PARTS = {MANIFEST, EXAMPLES, CHECKSUMS, BACKBONE, BUILDING} | {
    backend.filename for backend in BACKENDS.values()
}
"""What an entry's folder may hold."""


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
            raise OptionError(f"{path} is a link, which is not followed: remove it yourself.")
        if not path.is_dir():
            raise EntryNotFoundError(f"no cache entry at {path}. `probekit cache ls` lists them.")
        complete = not path.name.endswith(PARTIAL)
        file = path / MANIFEST if complete else path / BUILDING / PLAN
        if not proven_key(file, path):
            raise OptionError(
                f"{path} is no entry of probekit: nothing in it was asked for under this name. "
                "Nothing was removed; if it is to go, remove it yourself."
            )
        if others := _strangers(path):
            raise OptionError(
                f"{path} holds {others[0]}, which is no part of an entry. Nothing was removed; "
                "take it away first."
            )
        return cls(path, complete, disk_bytes(path))

    def remove(self) -> None:
        """Remove it, and the labels of its text that no other entry needs.

        Links in it go, what they point to stays.

        Raises:
            EntryLockedError: another process is writing it.
            StorageError: a file of it cannot be removed.
        """
        of, task = _text_of(self.path), self.path.parent
        with EntryLock(self.path.with_name(self.path.name.removesuffix(PARTIAL))):
            remove_path(self.path)
            for file in orphaned_labels(task):
                if file.of == of:
                    remove_path(file.path)


def _strangers(path: Path) -> list[str]:
    """Return what lies in an entry's folder and is no part of it; links lose nothing."""
    found = (file for file in path.iterdir() if not file.is_symlink())
    return sorted(file.name for file in found if file.name not in _PARTS)


def _text_of(path: Path) -> tuple[str, object]:
    """Return split and text of an entry, whole or unfinished."""
    named = split_and_key(path.name)
    assert named is not None, "it was proven to be an entry"
    return named[0], asked_of(path).get("text")
