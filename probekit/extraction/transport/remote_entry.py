"""An entry as it lies in a repository, read as anybody's: manifest, form, and where it may go."""

from dataclasses import dataclass
from pathlib import Path

from probekit.errors import EntryError
from probekit.extraction.transport.remote_files import PUSH_AGAIN, RemoteFiles, pushed_errors
from probekit.extraction.transport.transport_form import FORM, TransportForm, entry_folders
from probekit.extraction.transport.transport_form import LARGEST as LARGEST_FORM
from probekit.store.layout import MANIFEST, entry_name
from probekit.store.manifest import LARGEST, Manifest
from probekit.tasks.task import slugify


@dataclass(frozen=True)
class RemoteEntry:
    """An entry of a repository.

    Attributes:
        remote: the repository.
        manifest: the entry's.
        form: how its files are cut.
    """

    remote: RemoteFiles
    manifest: Manifest
    form: TransportForm

    @classmethod
    def read(cls, remote: RemoteFiles, folder: str, here: Path) -> "RemoteEntry":
        """Download and check what an entry says of itself.

        Args:
            remote: the repository.
            folder: the entry's folder there.
            here: where the two files are put.

        Raises:
            EntryError: they are missing, damaged, altered, of a newer version, or of another entry
                than the folder's name says.
            HubError: they cannot be downloaded.
        """
        remote.check(f"{folder}/{FORM}", LARGEST_FORM, at_most=True)
        remote.check(f"{folder}/{MANIFEST}", LARGEST, at_most=True)
        form = TransportForm.read(
            remote.fetch(f"{folder}/{FORM}", here), f"{remote}: {folder}/{FORM}"
        )
        where = f"{remote}: {folder}/{MANIFEST}"
        file = remote.fetch(f"{folder}/{MANIFEST}", here)
        try:
            text = file.read_text("utf-8")
        except UnicodeDecodeError:
            raise EntryError(f"{where} is not UTF-8. {PUSH_AGAIN}") from None
        with pushed_errors():
            manifest = Manifest.from_json(text, where)
        if manifest.to_json() != text:
            raise EntryError(f"{where} is not as it was written. {PUSH_AGAIN}")
        if folder_of(manifest) != folder:
            raise EntryError(
                f"{where} is of another entry than its folder, {folder_of(manifest)!r:.200}."
            )
        return cls(remote, manifest, form)

    @property
    def folder(self) -> str:
        """Its folder in the repository."""
        return folder_of(self.manifest)


def folder_of(manifest: Manifest) -> str:
    """Return the folder of an entry: ``<model>/<task>/<split>-<key8>``, as in a cache."""
    name = entry_name(manifest.split, manifest.key)
    return f"{manifest.model}/{slugify(manifest.task)}/{name}"


def folders_in(remote: RemoteFiles) -> list[str]:
    """Return the folders of entries in a repository.

    Raises:
        EntryError: there is none.
    """
    found = entry_folders(list(remote.sizes))
    if not found:
        raise EntryError(
            f"{remote} is no probekit cache: no MODEL/TASK/SPLIT-KEY/{FORM} is in it. `probekit "
            "cache push` makes one."
        )
    return found
