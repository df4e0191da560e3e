"""Remove entries, and nothing that is not provably one."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from probekit.errors import EntryNotFoundError, OptionError, StorageError
from probekit.fingerprint import digest
from probekit.store.files import disk_bytes
from probekit.store.layout import split_and_key
from probekit.store.lock import EntryLock
from probekit.store.names import BUILDING, MANIFEST, PARTIAL, PLAN


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
            OptionError: it is a link, or no entry.
        """
        if path.is_symlink():
            raise OptionError(f"{path} is a link, which is not followed: remove it yourself.")
        if not path.is_dir():
            raise EntryNotFoundError(f"no cache entry at {path}. `probekit cache ls` lists them.")
        complete = not path.name.endswith(PARTIAL)
        name = split_and_key(path.name)
        file = path / MANIFEST if complete else path / BUILDING / PLAN
        if name is None or not asked_key(file).startswith(name[1]):
            raise OptionError(
                f"{path} is no entry of probekit: nothing in it was asked for under this name. "
                "Nothing was removed; if it is to go, remove it yourself."
            )
        return cls(path, complete, disk_bytes(path))

    def remove(self) -> None:
        """Remove it; links in it go, what they point to stays.

        Raises:
            EntryLockedError: another process is writing it.
            StorageError: a file of it cannot be removed.
        """
        lock = EntryLock(self.path.with_name(self.path.name.removesuffix(PARTIAL)))
        try:
            shutil.rmtree(self.path)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be removed ({error}).") from error
        finally:
            lock.release()


def asked_key(file: Path) -> str:
    """Return the key of what a manifest or a plan says was asked for; none where it is neither."""
    try:
        values = json.loads(file.read_text("utf-8"))
        request = values.get("request") if isinstance(values, dict) else None
        return digest(request) if isinstance(request, dict) and request else ""
    except (OSError, ValueError, RecursionError):
        return ""
