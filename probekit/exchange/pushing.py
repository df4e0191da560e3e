"""Push entries to a folder, a bucket or the Hub: the same files, the manifest last."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from probekit.base.markup import CARD
from probekit.base.notices import ProgressBar
from probekit.base.registry import PathName
from probekit.base.replacing import scratch
from probekit.errors import EXTRACT_AGAIN, EntryError, OptionError, StorageError
from probekit.exchange.dataset_card import (
    CROISSANT,
    ENTRIES,
    CardEntry,
    write_card,
    write_croissant,
)
from probekit.exchange.hub_remote import Hub, remote_at
from probekit.exchange.remote_entry import (
    RemoteEntry,
    entry_folders,
    folder_of,
    labels_at,
    withheld_sum,
    withhold,
)
from probekit.exchange.remotes import Folder, Remote, Writable, nbytes_of
from probekit.store.checksums import verify_checksums, verify_files
from probekit.store.files import typed_path
from probekit.store.labels import files_of
from probekit.store.layout import EXAMPLES, LABELS, MANIFEST, split_and_key
from probekit.store.verified import VerifiedEntry

logger = logging.getLogger(__name__)

_BEGUN = f"{MANIFEST}.begun"
"""At a place: the manifest of an entry that is on its way there."""


@dataclass(frozen=True)
class PushedEntry:
    """An entry as it is to lie at a place.

    Attributes:
        source: the entry.
        files: every file but the manifest, by its path in the entry's folder.
        labels: the label files, by their names.
        text: whether its text is among them.
    """

    source: VerifiedEntry
    files: Mapping[str, bytes | Path]
    labels: Mapping[str, bytes | Path]
    text: bool

    @classmethod
    def of(cls, path: Path, *, text: bool) -> "PushedEntry":
        """List what is sent of an entry.

        Args:
            path: the entry's folder.
            text: whether words, texts and labels are sent.

        Raises:
            EntryError: it is unfinished or damaged.
            OptionError: its text cannot be left out.
        """
        if wrong := verify_files(path):
            raise EntryError(f"{path}: {wrong[0]}. It is not pushed. {EXTRACT_AGAIN}")
        source = VerifiedEntry(path)
        names = [*source.manifest.files, *source.chunk_files]
        files: dict[str, bytes | Path] = {name: source.path / name for name in names}
        if text:
            labels = {file.path.name: file.path for file in files_of(source.entry)}
        else:
            labels = {}
            del files[EXAMPLES]
            files |= [withhold(source.examples.table, source.manifest)]
        return cls(source, files, labels, text)

    @property
    def folder(self) -> str:
        """Its folder at the place: ``<model>/<task>/<split>-<key8>``, as in a cache."""
        return folder_of(self.source.manifest)

    @property
    def paths(self) -> dict[str, bytes | Path]:
        """Every file but the manifest, by its path at the place."""
        inside = {f"{self.folder}/{name}": data for name, data in self.files.items()}
        labels = f"{self.folder.rpartition('/')[0]}/{LABELS}"
        return inside | {f"{labels}/{name}": data for name, data in self.labels.items()}

    @property
    def manifest(self) -> tuple[str, bytes]:
        """Path and bytes of the manifest there."""
        return f"{self.folder}/{MANIFEST}", self.source.manifest_text.encode()

    @property
    def every(self) -> dict[str, bytes | Path]:
        """Every file, by its path there, the manifest last."""
        name, text = self.manifest
        return {**self.paths, name: text}

    def outdated(self, sizes: Mapping[str, int]) -> list[str]:
        """Return files that an earlier push of this entry left, and this one does not send.

        Files that no push has sent stay.

        Args:
            sizes: of the files that are there.
        """
        inside, sent = f"{self.folder}/", self.every
        files = {n: n.removeprefix(inside) for n in sizes if n.startswith(inside) and n not in sent}
        return [
            name
            for name, file in files.items()
            if file in (_BEGUN, EXAMPLES) or withheld_sum(file) is not None
        ]

    def outdated_labels(self, sizes: Mapping[str, int]) -> list[str]:
        """Return the labels of a split whose text is left out, unless another entry there has it.

        Args:
            sizes: of the files that stay there.
        """
        task, _, _ = self.folder.rpartition("/")

        def has_text(folder: str) -> bool:
            parent, _, name = folder.rpartition("/")
            split, _ = split_and_key(name) or ("", "")
            there = parent == task and split == self.source.manifest.split
            return there and folder != self.folder and f"{folder}/{EXAMPLES}" in sizes

        if self.text or any(map(has_text, entry_folders(sizes))):
            return []
        return labels_at(self.folder, self.source.manifest, sizes)


@dataclass(frozen=True)
class Push:
    """Entries, and the place that they are to lie at.

    Attributes:
        remote: where they go.
        entries: what is sent.
        private: whether a new repository of the Hub is open to its owner alone.
    """

    remote: Remote
    entries: Sequence[PushedEntry]
    private: bool = False

    @classmethod
    def of(
        cls, paths: Sequence[PathName], url: PathName, *, text: bool = True, private: bool = False
    ) -> "Push":
        """Plan it; nothing is sent, and nobody is asked.

        Args:
            paths: folders of entries.
            url: as for `remote_at`; a repository of the Hub may be new.
            text: whether words, texts and labels are sent along.
            private: whether a new repository is private.

        Raises:
            EntryError: an entry is unfinished or damaged.
            OptionError: a text cannot be left out, or it is no URL, or the cache itself.
            HubError: it is no name of a repository.
            EntryNotFoundError: there is no entry at a path.
        """
        remote, folders = remote_at(url), list(map(typed_path, paths))
        if private and not isinstance(remote, Hub):
            raise OptionError(f"--private is for the Hub, hf://datasets/OWNER/NAME, not {remote}.")
        if isinstance(remote, Folder):
            there = remote.path.resolve()
            for path in folders:
                if there in path.resolve().parents:
                    raise OptionError(f"{path} is already in {remote}: push it elsewhere.")
            for above in (there, *there.parents):
                if (above / MANIFEST).is_file():
                    raise OptionError(
                        f"{remote} is inside an entry, {above}: push to another folder."
                    )
        return cls(remote, [PushedEntry.of(path, text=text) for path in folders], private)

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of every file that is sent, but a card, by its path at the place."""
        return {n: nbytes_of(data) for pushed in self.entries for n, data in pushed.every.items()}

    @property
    def told_places(self) -> list[str]:
        """Paths on this machine that manifests tell, which are sent with them."""
        manifests = [pushed.source.manifest for pushed in self.entries]
        named = {
            str(manifest.model_info.get(name))
            for manifest in manifests
            for name in ("name", "base", "source")
        }
        origins = (re.findall(r"(?<!\S)/\S+", manifest.origin) for manifest in manifests)
        return sorted({*(n for n in named if n.startswith("/")), *chain.from_iterable(origins)})

    def apply(self, *, progress: bool = False) -> str:
        """Send everything; return where it lies.

        A reader finds an entry that is whole, or none. What an interrupted push has sent is not
        sent again.

        Args:
            progress: show progress on stderr.

        Raises:
            HubError: the Hub refuses, or cannot be reached.
            StorageError: another place does; or another push replaces what this one has sent.
            EntryError: a chunk is damaged.
        """
        for pushed in self.entries:
            if damaged := verify_checksums(pushed.source.path):
                raise EntryError(f"{damaged[0]}. It is not pushed. {EXTRACT_AGAIN}")
        if isinstance(self.remote, Hub):
            return self._commit(self.remote, progress)
        assert isinstance(self.remote, Writable)
        with ProgressBar(
            total=sum(self.sizes.values()), desc=f"push to {self.remote}", unit="B",
            unit_scale=True, shown=progress,
        ) as bar:  # fmt: skip
            for pushed in self.entries:
                _send(pushed, self.remote, bar.report)
        return str(self.remote)

    def _commit(self, hub: Hub, progress: bool) -> str:
        """Send everything in one commit: the Hub keeps what a push that was killed has sent."""
        hub.open_for_push(private=self.private)
        before = hub.sizes()
        files: dict[str, bytes | Path] = dict(self._about(hub, before))
        for pushed in self.entries:
            files |= pushed.every
        gone = dict.fromkeys(name for pushed in self.entries for name in pushed.outdated(before))
        left = {name: size for name, size in before.items() if name not in gone}
        for pushed in self.entries:
            gone |= dict.fromkeys(pushed.outdated_labels(left))
        names = ", ".join(pushed.folder for pushed in self.entries)
        message = f"Push {names} with probekit"
        return hub.commit(message, files, list(gone), progress=progress)

    def _about(self, hub: Hub, before: Mapping[str, int]) -> dict[str, bytes]:
        """Return card and metadata of all entries, those included that lie there already."""
        cards = [
            CardEntry(pushed.folder, pushed.source.manifest, pushed.text) for pushed in self.entries
        ]
        others = sorted(set(entry_folders(before)) - {card.folder for card in cards})
        with scratch() as here:
            for folder in others:
                try:
                    entry = RemoteEntry(hub, before, folder, here)
                    cards.append(CardEntry(folder, entry.manifest, not entry.withheld))
                except EntryError as error:
                    logger.warning("the card leaves %s out: %s", folder, error)
        try:
            old = hub.read(CARD, 0, before[CARD]).decode() if CARD in before else None
        except UnicodeDecodeError:
            raise EntryError(f"{hub}: {CARD} is not UTF-8. Fix or remove it.") from None
        cards.sort(key=lambda card: card.folder)
        text = write_card(hub.url, cards, old)
        made = {CARD: text.encode(), CROISSANT: write_croissant(hub.url, cards, text).encode()}
        # what its owner wrote under that name stays
        theirs = hub.read(CROISSANT, 0, before.get(CROISSANT, 0))
        if theirs and ENTRIES.encode() not in theirs:
            del made[CROISSANT]
        return made


def _send(pushed: PushedEntry, remote: Writable, report: Callable[[int], None]) -> None:
    """Send an entry: its manifest under another name first, and under its own one last."""
    sizes = remote.sizes()
    manifest, text = pushed.manifest
    begun = f"{pushed.folder}/{_BEGUN}"
    paths = pushed.paths
    inside = [name for name in paths if name.startswith(f"{pushed.folder}/")]
    if _holds(remote, sizes, manifest, text):  # what is there may be damaged: all is sent
        sizes = {}
    elif not _holds(remote, sizes, begun, text):  # what is there was not sent by this push
        remote.remove([name for name in (manifest, begun, *inside) if name in sizes])
        if not _stands(pushed, remote, begun):
            raise _rivalled(pushed, remote)
        sizes = {}
    done = {name for name in inside if sizes.get(name) == nbytes_of(paths[name])}
    report(sum(nbytes_of(paths[name]) for name in done))
    remote.write_all({name: data for name, data in paths.items() if name not in done}, report)
    # in this order: another push of the same files writes the manifest before it removes the mark
    if not any(remote.read(name, 0, len(text) + 1) == text for name in (begun, manifest)):
        raise _rivalled(pushed, remote)
    stands, mark = _stands(pushed, remote, manifest), remote.read(begun, 0, len(text) + 1)
    if mark == text and not stands:  # the other one sent all its files before this one began
        remote.write(manifest, text)
    elif mark not in (text, b"") or not stands:
        raise _rivalled(pushed, remote)
    report(len(text))
    sizes = remote.sizes()
    remote.remove([*pushed.outdated(sizes), *pushed.outdated_labels(sizes)])


def _stands(pushed: PushedEntry, remote: Writable, name: str) -> bool:
    """Write the manifest under a name, unless one stands there; say whether it is this one."""
    _, text = pushed.manifest
    for _ in range(2):  # what stood there may be gone, and a conflict may have left nothing
        if remote.create(name, text) or remote.read(name, 0, len(text) + 1) == text:
            return True
    return False


def _rivalled(pushed: PushedEntry, remote: Remote) -> StorageError:
    return StorageError(
        f"{remote}: another push of {pushed.folder} began meanwhile, of an entry that was made "
        "separately. What lies there may hold files of both. Push the one that you want again, "
        "once the other has ended."
    )


def _holds(remote: Remote, sizes: Mapping[str, int], name: str, text: bytes) -> bool:
    return sizes.get(name) == len(text) and remote.read(name, 0, len(text)) == text
