"""Push entries to a data set repository of the Hub: layer files, one commit, a card."""

import logging
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probekit.base.notices import ProgressBar
from probekit.errors import EntryError, HubError
from probekit.extraction.transport.dataset_card import CARD, CardEntry, write_card
from probekit.extraction.transport.outgoing_entry import OutgoingEntry
from probekit.extraction.transport.remote_entry import RemoteEntry
from probekit.extraction.transport.remote_files import (
    RemoteFiles,
    check_name,
    hub_errors,
    silent_client,
)
from probekit.extraction.transport.transport_form import entry_folders
from probekit.extraction.transport.upload import Upload
from probekit.store.objects.object_path import root_of

logger = logging.getLogger(__name__)


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
        entries = [OutgoingEntry.of(root_of(path), text=text) for path in paths]
        return cls(check_name(repo), entries, revision, private)

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of every file that is sent but the card, by its path in the repository."""
        return {name: size for one in self.entries for name, size in one.sizes.items()}

    @property
    def told_places(self) -> list[str]:
        """Paths on this machine that manifests tell, which are sent with them."""
        manifests = [one.manifest for one in self.entries]
        told = [
            str(text)
            for one in manifests
            for text in (*map(one.model_info.get, ("name", "base", "source")), one.origin)
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
        before = self._opened(api)
        card = self._card(before)
        upload = Upload(api, self.repo, self.revision)
        bar = ProgressBar(
            total=sum(self.sizes.values()), desc=f"push {self.repo}", unit="B", unit_scale=True,
            shown=progress,
        )  # fmt: skip
        with bar, silent_client(), tempfile.TemporaryDirectory(prefix="probekit-push-") as staging:
            for one in self.entries:
                upload.send_entry(one, Path(staging), bar.report)
            upload.add({CARD: card.encode()})
            return upload.commit(self._message(), self._outdated(before))

    def _opened(self, api: Any) -> RemoteFiles:
        """Return what lies in the repository or its branch, which are made if need be."""
        with hub_errors(self.repo):  # None: as its owner has it, who may want all to be private
            private = self.private or None
            api.create_repo(self.repo, repo_type="dataset", private=private, exist_ok=True)
        found = RemoteFiles.find(self.repo)
        if self.private and not found.private:
            raise HubError(
                f"Hub data set {self.repo!r} exists and is public: --private is for new ones. "
                "Nothing was pushed; make it private in its settings, or choose another name."
            )
        if self.revision in (None, "main"):
            return found
        branch = str(self.revision)
        with hub_errors(self.repo):
            api.create_branch(self.repo, branch=branch, repo_type="dataset", exist_ok=True)
        return RemoteFiles.find(self.repo, branch)

    def _message(self) -> str:
        names = ", ".join(one.folder for one in self.entries)
        return f"Push {names} with probekit"

    def _outdated(self, before: RemoteFiles) -> list[str]:
        """Return files of these entries that an earlier push left, and this one does not send."""
        sent, folders = self.sizes, tuple(f"{one.folder}/" for one in self.entries)
        return [name for name in before.sizes if name.startswith(folders) and name not in sent]

    def _card(self, before: RemoteFiles) -> str:
        """Return the card of all entries, those included that lie in the repository already."""
        own = [CardEntry(one.folder, one.manifest, one.form.text) for one in self.entries]
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
