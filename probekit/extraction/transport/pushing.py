"""Push entries to a data set repository of the Hub: layer files, one commit, a card."""

import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from probekit.base.notices import ProgressBar, human_bytes
from probekit.errors import EXTRACT_AGAIN, EntryError, HubError, StorageError
from probekit.extraction.transport.dataset_card import CARD, CardEntry, write_card
from probekit.extraction.transport.remote_entry import RemoteEntry, folder_of
from probekit.extraction.transport.remote_files import (
    RemoteFiles,
    check_name,
    hub_errors,
    silent_client,
)
from probekit.extraction.transport.transport_form import (
    FORM,
    FileSum,
    LayerFile,
    TransportForm,
    chunks_of_a_file,
    entry_folders,
    label_path,
)
from probekit.extraction.transport.withheld_text import withhold
from probekit.store.backends import ChunkPlaces
from probekit.store.checksums import places_of, read_checksums, read_chunk, verify_files
from probekit.store.entry import Entry
from probekit.store.files import free_bytes
from probekit.store.labels import labels_of
from probekit.store.layout import BACKBONE, CHECKSUMS, EXAMPLES, MANIFEST
from probekit.store.marks import ChunkSum
from probekit.store.tables import table_bytes

logger = logging.getLogger(__name__)

_IN_MEMORY = 2**20
"""Bytes of a file up to which it is sent from memory, and not laid on the disk before."""


@dataclass(frozen=True)
class OutgoingEntry:
    """One entry as it lies in the repository.

    Attributes:
        entry: the entry.
        form: how its files are cut, and whether its text is among them.
        small: every file but those of chunks, by its path in the entry's folder.
    """

    entry: Entry
    form: TransportForm
    small: Mapping[str, bytes]

    @classmethod
    def of(cls, path: Path, *, text: bool) -> "OutgoingEntry":
        """Read what is sent of an entry besides its chunks.

        Args:
            path: the entry's folder.
            text: whether words, texts and labels are sent.

        Raises:
            EntryError: it is unfinished or damaged.
            OptionError: its text cannot be left out.
        """
        entry = Entry.open(path)
        if wrong := verify_files(path):
            raise EntryError(f"{path}: {wrong[0]}. It is not pushed. {EXTRACT_AGAIN}")
        if text:
            examples = (path / EXAMPLES).read_bytes()
            labels = {file.path.name: file.path.read_bytes() for file in labels_of(entry)}
        else:
            examples = table_bytes(withhold(entry.examples.table, entry.manifest))
            labels = {}
        form = TransportForm(
            text=text,
            row_chunks={spec.name: chunks_of_a_file(spec) for spec in entry.manifest.arrays},
            examples=FileSum.of(examples),
            labels={name: FileSum.of(data) for name, data in labels.items()},
        )
        backbone = {f"{BACKBONE}/{f.name}": f.read_bytes() for f in entry.backbone.iterdir()}
        small = {
            FORM: form.to_json(),
            MANIFEST: (path / MANIFEST).read_bytes(),
            EXAMPLES: examples,
            CHECKSUMS: (path / CHECKSUMS).read_bytes(),
            **dict(sorted(backbone.items())),
            **{label_path(name): data for name, data in sorted(labels.items())},
        }
        return cls(entry, form, small)

    @property
    def folder(self) -> str:
        """Its folder in the repository: ``<model>/<task>/<split>-<key8>``, as in a cache."""
        return folder_of(self.entry.manifest)

    @property
    def layer_files(self) -> list[LayerFile]:
        """The files of its chunks."""
        manifest = self.entry.manifest
        return self.form.files(manifest.arrays, manifest)

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of every file, by its path in the repository."""
        files = {name: len(data) for name, data in self.small.items()}
        files |= {file.name: file.nbytes for file in self.layer_files}
        return {f"{self.folder}/{name}": size for name, size in files.items()}

    def chunks(self, file: LayerFile) -> Iterator[bytes]:
        """Yield the bytes of a file of chunks, each chunk verified.

        Raises:
            EntryError: a chunk is damaged.
        """
        at = file.array.layers.index(file.layer)
        for plain, row_chunk in file.chunks:
            yield read_chunk(self._sums[plain.name, row_chunk, at], self._places[plain.name])

    @cached_property
    def _places(self) -> dict[str, ChunkPlaces]:
        return places_of(self.entry.path, self.entry.manifest)

    @cached_property
    def _sums(self) -> dict[tuple[str, int, int], ChunkSum]:
        listed = read_checksums(self.entry.path, self.entry.manifest)
        return {(c.array, c.row_chunk, c.layer_index): c for c in listed}


@dataclass(frozen=True)
class Push:
    """Entries, and the repository that they are to lie in.

    Attributes:
        repo: ``org/name``.
        entries: what is sent.
        revision: the branch; None is the main one. It is made if it is not there.
        private: whether a new repository is open to its owner alone.
    """

    repo: str
    entries: Sequence[OutgoingEntry]
    revision: str | None = None
    private: bool = False

    @classmethod
    def of(
        cls,
        paths: Sequence[Path],
        repo: str,
        *,
        text: bool = True,
        revision: str | None = None,
        private: bool = False,
    ) -> "Push":
        """Plan it; nothing is sent, and the Hub is not asked.

        Args:
            paths: folders of entries.
            repo: ``org/name`` of a data set repository, which may be new.
            text: whether words, texts and labels are sent along.
            revision: the branch.
            private: whether a new repository is private.

        Raises:
            EntryError: an entry is unfinished or damaged.
            OptionError: a text cannot be left out.
            HubError: the repository's name is none.
            EntryNotFoundError: there is no entry at a path.
        """
        entries = [OutgoingEntry.of(path, text=text) for path in paths]
        return cls(check_name(repo), entries, revision, private)

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of every file that is sent but the card, by its path in the repository."""
        return {name: size for one in self.entries for name, size in one.sizes.items()}

    @property
    def told_places(self) -> list[str]:
        """Paths on this machine that manifests tell, which are sent with them."""
        manifests = [one.entry.manifest for one in self.entries]
        told = [
            str(text)
            for one in manifests
            for text in (one.model_info.get("name"), one.model_info.get("source"), one.origin)
        ]
        return sorted({path for text in told for path in re.findall(r"(?<!\S)/\S+", text)})

    def apply(self, *, progress: bool = False) -> str:
        """Send everything, in one commit; return its address.

        Readers see the repository as it was until the commit. What an interrupted push has sent is
        not sent again.

        Args:
            progress: show progress on stderr.

        Raises:
            HubError: the Hub refuses, or cannot be reached.
            EntryError: a chunk is damaged.
            StorageError: there is no room to lay a file on the disk.
        """
        from huggingface_hub import HfApi

        api = HfApi()
        with hub_errors(self.repo):  # None: as its owner has it, who may want all to be private
            private = self.private or None
            api.create_repo(self.repo, repo_type="dataset", private=private, exist_ok=True)
        before = RemoteFiles.find(self.repo)
        if self.private and not before.private:
            raise HubError(
                f"Hub data set {self.repo!r} exists and is public: --private is for new ones. "
                "Nothing was pushed; make it private in its settings, or choose another name."
            )
        if self.revision not in (None, "main"):
            branch = str(self.revision)
            with hub_errors(self.repo):
                api.create_branch(self.repo, branch=branch, repo_type="dataset", exist_ok=True)
            before = RemoteFiles.find(self.repo, branch)
        card = self._card(before)
        upload = _Upload(api, self.repo, self.revision)
        bar = ProgressBar(
            total=sum(self.sizes.values()), desc=f"push {self.repo}", unit="B", unit_scale=True,
            shown=progress,
        )  # fmt: skip
        with bar, silent_client(), tempfile.TemporaryDirectory(prefix="probekit-push-") as staging:
            for one in self.entries:
                upload.send_entry(one, Path(staging), bar.report)
            upload.add({CARD: card.encode()})
            return upload.commit(self._message(), self._outdated(before))

    def _message(self) -> str:
        names = ", ".join(one.folder for one in self.entries)
        return f"Push {names} with probekit"

    def _outdated(self, before: RemoteFiles) -> list[str]:
        """Return files of these entries that an earlier push left, and this one does not send."""
        sent, folders = self.sizes, tuple(f"{one.folder}/" for one in self.entries)
        return [name for name in before.sizes if name.startswith(folders) and name not in sent]

    def _card(self, before: RemoteFiles) -> str:
        """Return the card of all entries, those included that lie in the repository already."""
        own = [CardEntry(one.folder, one.entry.manifest, one.form.text) for one in self.entries]
        folders = {one.folder for one in own}
        others = [name for name in entry_folders(list(before.sizes)) if name not in folders]
        with tempfile.TemporaryDirectory(prefix="probekit-push-") as folder_of_files:
            here = Path(folder_of_files)
            for folder in others:
                try:
                    found = RemoteEntry.read(before, folder, here)
                    own.append(CardEntry(folder, found.manifest, found.form.text))
                except EntryError as error:
                    logger.warning("the card leaves %s out: %s", folder, error)
            old = before.fetch(CARD, here).read_text("utf-8") if CARD in before.sizes else None
        return write_card(self.repo, sorted(own, key=lambda one: one.folder), old)


class _Upload:
    """Files on their way to one commit."""

    def __init__(self, api: Any, repo: str, revision: str | None) -> None:
        self._api, self._repo, self._revision = api, repo, revision
        self._operations: list[Any] = []

    def add(self, files: Mapping[str, bytes | Path]) -> None:
        """Send files that the Hub does not have; they become visible with the commit."""
        from huggingface_hub import CommitOperationAdd

        added = [
            CommitOperationAdd(name, data if isinstance(data, bytes) else str(data))
            for name, data in files.items()
        ]
        with hub_errors(self._repo, self._revision):
            self._api.preupload_lfs_files(
                self._repo, added, repo_type="dataset", revision=self._revision
            )
        for one in added:
            if isinstance(one.path_or_fileobj, str):  # the Hub wants it in the commit itself
                one.path_or_fileobj = Path(one.path_or_fileobj).read_bytes()
        self._operations += added

    def send_entry(
        self, one: OutgoingEntry, staging: Path, report: Callable[[int | str], None]
    ) -> None:
        """Send the files of an entry, those of chunks last."""
        self.add({f"{one.folder}/{name}": data for name, data in one.small.items()})
        report(sum(map(len, one.small.values())))
        for file in one.layer_files:
            report(file.name)
            if file.nbytes <= _IN_MEMORY:
                self.add({f"{one.folder}/{file.name}": b"".join(one.chunks(file))})
            else:
                laid = _lay(one, file, staging)
                self.add({f"{one.folder}/{file.name}": laid})
                laid.unlink()
            report(file.nbytes)

    def commit(self, message: str, outdated: Sequence[str]) -> str:
        """Make everything visible at once, and remove what is out of date."""
        from huggingface_hub import CommitOperationDelete

        gone = [CommitOperationDelete(name, is_folder=False) for name in outdated]
        with hub_errors(self._repo, self._revision):
            made = self._api.create_commit(
                self._repo,
                [*gone, *self._operations],
                commit_message=message,
                repo_type="dataset",
                revision=self._revision,
            )
        return str(made.commit_url)


def _lay(one: OutgoingEntry, file: LayerFile, staging: Path) -> Path:
    """Lay a file of chunks on the disk, since the Hub's client reads its bytes more than once.

    Raises:
        EntryError: a chunk is damaged.
        StorageError: there is no room.
    """
    laid = staging / "layer.bin"
    if file.nbytes > (free := free_bytes(staging)):
        raise StorageError(
            f"{staging.parent}: {human_bytes(file.nbytes)} are needed to send {file.name}, and "
            f"{human_bytes(free)} are free. Set TMPDIR to a folder that has room."
        )
    with laid.open("wb") as sink:
        for data in one.chunks(file):
            sink.write(data)
    return laid
