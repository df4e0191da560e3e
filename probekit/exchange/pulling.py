"""Pull entries, or layers of them, from a folder, a bucket or the Hub into a cache."""

import weakref
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from probekit.base.registry import PathName, choose
from probekit.base.replacing import scratch
from probekit.errors import EntryError, OptionError
from probekit.exchange.contract import Remote
from probekit.exchange.dataset_card import TextSource
from probekit.exchange.remote_entry import RemoteEntry, entry_folders
from probekit.exchange.remotes import remote_at
from probekit.extraction.drafting import write_split_labels
from probekit.extraction.maintenance.entry_copy import PULL, Destination, EntryCopy
from probekit.extraction.maintenance.parts import CopiedRows, asked_arrays, part_manifest
from probekit.store.entry import Entries
from probekit.store.files import check_room, typed_path
from probekit.store.layout import split_and_key
from probekit.tasks import Split, Task


@dataclass(frozen=True)
class PulledEntry:
    """An entry at a place, or a part of it, and where that is to lie.

    Attributes:
        entry: the entry there.
        copy: of what is wanted of it.
    """

    entry: RemoteEntry
    copy: EntryCopy

    @classmethod
    def of(
        cls, entry: RemoteEntry, root: Path, layers: str | None, arrays: Collection[str]
    ) -> "PulledEntry":
        """Plan it; errors as of `EntryCopy.of`."""
        manifest = part_manifest(entry.manifest, asked_arrays(entry.manifest, layers, arrays))
        if entry.withheld:  # with its text it has other files than the one that was pushed
            manifest = replace(manifest, files={})
        to = Destination.of(root, entry.path, manifest.key, overwrite=False)
        return cls(entry, EntryCopy(entry, manifest, CopiedRows(entry, manifest), to, PULL))

    @property
    def nbytes(self) -> int:
        """Bytes that are read; none of an entry that is there already."""
        return 0 if self.copy.destination.there else self.copy.nbytes + self.entry.small_nbytes

    def text(self, source: TextSource) -> tuple[Split, Task] | None:
        """Read the text of an entry that was pushed without; None where none is needed."""
        there = self.copy.destination.there and source.data is None
        return source.read(self.entry.manifest) if self.entry.withheld and not there else None


@dataclass(frozen=True)
class Pull:
    """Entries at a place that are to come into a cache.

    Attributes:
        remote: where they are.
        entries: what is wanted.
        cache: root of the cache.
        source: where the text is, of those that were pushed without.
    """

    remote: Remote
    entries: Sequence[PulledEntry]
    cache: Path
    source: TextSource

    @classmethod
    def of(
        cls,
        url: PathName,
        cache: PathName = Path("cache"),
        *,
        splits: Collection[str] = (),
        entry: str | None = None,
        layers: str | None = None,
        arrays: Collection[str] = (),
        source: TextSource | None = None,
    ) -> "Pull":
        """Ask what there is, and check what it says of itself; nothing is written.

        Args:
            url: as for `remote_at`.
            cache: root of the cache.
            splits: the splits; none is all.
            entry: the beginning of a key, where there are several entries of a split.
            layers: the layers, as `parse_layers` reads them; None is all.
            arrays: the arrays; none is all.
            source: where the text is, of entries that were pushed without.

        Raises:
            HubError: there is no such repository, no access to it, or no answer.
            StorageError: the same of a bucket.
            EntryError: there are no entries, or one is damaged or too new.
            OptionError: there is no such split, entry or layer.
        """
        remote, root = remote_at(url), typed_path(cache)
        sizes = remote.sizes()
        folders = _chosen(remote, entry_folders(sizes), splits, entry)
        entries: list[PulledEntry] = []
        planned = cls(remote, entries, root, source or TextSource())
        small_files = ExitStack()
        weakref.finalize(planned, small_files.close)
        here = small_files.enter_context(scratch())
        for folder in folders:
            stored = RemoteEntry(remote, sizes, folder, here)
            entries.append(PulledEntry.of(stored, root, layers, arrays))
        return planned

    @property
    def sizes(self) -> Mapping[Path, int]:
        """Bytes that are read of each entry, by where it goes."""
        return {pulled.copy.destination.path: pulled.nbytes for pulled in self.entries}

    def apply(self, *, progress: bool = False) -> Entries:
        """Bring the entries into the cache; one that is there already gets new labels alone.

        Every chunk is compared with its checksum. What an interrupted pull has brought is kept, and
        not loaded again.

        Args:
            progress: show progress on stderr.

        Raises:
            HubError: the Hub refuses, or does not answer.
            StorageError: a bucket does; or the cache cannot be written, or there is no room.
            EntryError: a file is not what its checksum says, or what no entry holds.
            DataError: the text is another one than that of the entry.
            OptionError: an entry was pushed without its text, and ``source`` does not say where.
            EntryLockedError: another process writes an entry.
        """
        texts = [pulled.text(self.source) for pulled in self.entries]
        needed = sum(pulled.copy.destination.left(pulled.copy.nbytes) for pulled in self.entries)
        less = "take fewer layers (--layers), or choose another --cache"
        check_room(self.cache, needed, "this pull", less)
        made = Entries()
        for pulled, text in zip(self.entries, texts, strict=True):
            to, manifest = pulled.copy.destination, pulled.copy.manifest
            pulled.entry.download_labels()
            if not to.there:
                pulled.entry.download(None if text is None else text[0])
            if text is not None:
                write_split_labels(to.path, manifest.request["text"], *text)
            with to.bar(pulled.copy.nbytes, shown=progress and not to.there) as bar:
                made.append(pulled.copy.apply(bar.report))
        return made


def _chosen(
    remote: Remote, folders: Sequence[str], splits: Collection[str], entry: str | None
) -> list[str]:
    """Return the folders of some splits, and of a key.

    Raises:
        EntryError: there are no entries.
        OptionError: there is no such split or key.
    """
    if not folders:
        raise EntryError(
            f"{remote} holds no entries: it has no MODEL/TASK/SPLIT-KEY/manifest.json. `probekit "
            "cache push` puts some there."
        )
    named = {folder: split_and_key(folder.rpartition("/")[2]) or ("", "") for folder in folders}
    known = dict.fromkeys(split for split, _ in named.values())
    for split in splits:
        choose(f"split at {remote}", split, known)
    chosen = [
        folder
        for folder, (split, key8) in named.items()
        if (not splits or split in splits) and (entry is None or _names(entry, key8))
    ]
    if not chosen:
        keys = ", ".join(f"{split}-{key8}" for split, key8 in named.values())
        raise OptionError(f"--entry {entry}: {remote} has no such entry; it has {keys}.")
    return chosen


def _names(entry: str, key8: str) -> bool:
    """Say whether the beginning of a key, or as much of it as a folder's name has, is typed."""
    return bool(entry) and key8.startswith(entry[: len(key8)])
