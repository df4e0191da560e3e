"""Pull entries, or layers of them, from a folder, a bucket or the Hub into a cache."""

import shutil
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

from probekit.base.registry import choose
from probekit.errors import EntryError, OptionError
from probekit.exchange.remote_entry import RemoteEntry, entry_folders
from probekit.exchange.url_places import Place, place_at
from probekit.exchange.withheld_text import TextSource
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
        remote: the entry there.
        copy: of what is wanted of it.
    """

    remote: RemoteEntry
    copy: EntryCopy

    @classmethod
    def of(
        cls, remote: RemoteEntry, root: Path, layers: str | None, arrays: Collection[str]
    ) -> "PulledEntry":
        """Plan it; errors as of `EntryCopy.of`."""
        manifest = part_manifest(remote.manifest, asked_arrays(remote.manifest, layers, arrays))
        if remote.withheld:  # with its text it has other files than the one that was pushed
            manifest = replace(manifest, files={})
        to = Destination.of(root, remote.path, manifest.key, overwrite=False)
        return cls(remote, EntryCopy(remote, manifest, CopiedRows(remote, manifest), to, PULL))

    @property
    def nbytes(self) -> int:
        """Bytes that are read; none of an entry that is there already."""
        return 0 if self.copy.destination.there else self.copy.nbytes + self.remote.small_nbytes

    def text(self, source: TextSource) -> tuple[Split, Task] | None:
        """Read the text of an entry that was pushed without; None where none is needed."""
        there = self.copy.destination.there and source.data is None
        return source.read(self.remote.manifest) if self.remote.withheld and not there else None


@dataclass(frozen=True)
class Pull:
    """Entries at a place that are to come into a cache.

    Attributes:
        place: where they are.
        entries: what is wanted.
        cache: root of the cache.
        source: where the text is, of those that were pushed without.
    """

    place: Place
    entries: Sequence[PulledEntry]
    cache: Path
    source: TextSource

    @classmethod
    def of(
        cls,
        url: str | Path,
        cache: str | Path = Path("cache"),
        *,
        splits: Collection[str] = (),
        entry: str | None = None,
        layers: str | None = None,
        arrays: Collection[str] = (),
        source: TextSource | None = None,
    ) -> "Pull":
        """Ask what there is, and check what it says of itself; nothing is written.

        Args:
            url: as for `place_at`.
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
        place, root = place_at(url), typed_path(cache)
        sizes = place.sizes()
        folders = _chosen(place, entry_folders(sizes), splits, entry)
        entries: list[PulledEntry] = []
        planned = cls(place, entries, root, source or TextSource())
        here = mkdtemp(prefix="probekit-pull-")  # for small files
        weakref.finalize(planned, shutil.rmtree, here, ignore_errors=True)
        for folder in folders:
            remote = RemoteEntry(place, sizes, folder, Path(here))
            entries.append(PulledEntry.of(remote, root, layers, arrays))
        return planned

    @property
    def sizes(self) -> Mapping[Path, int]:
        """Bytes that are read of each entry, by where it goes."""
        return {one.copy.destination.path: one.nbytes for one in self.entries}

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
        texts = [one.text(self.source) for one in self.entries]
        needed = sum(one.copy.destination.left(one.copy.nbytes) for one in self.entries)
        less = "take fewer layers (--layers), or choose another --cache"
        check_room(self.cache, needed, "this pull", less)
        made = Entries()
        for one, text in zip(self.entries, texts, strict=True):
            to, manifest = one.copy.destination, one.copy.manifest
            one.remote.download_labels()
            if not to.there:
                one.remote.download(manifest.arrays, None if text is None else text[0])
            if text is not None:
                write_split_labels(to.path, manifest.request["text"], *text)
            with to.bar(one.copy.nbytes, shown=progress and not to.there) as bar:
                made.append(one.copy.apply(bar.report))
        return made


def _chosen(
    place: Place, folders: Sequence[str], splits: Collection[str], entry: str | None
) -> list[str]:
    """Return the folders of some splits, and of a key.

    Raises:
        EntryError: there are no entries.
        OptionError: there is no such split or key.
    """
    if not folders:
        raise EntryError(
            f"{place} holds no entries: no MODEL/TASK/SPLIT-KEY/manifest.json is in it. `probekit "
            "cache push` sends some."
        )
    named = {folder: split_and_key(folder.rpartition("/")[2]) or ("", "") for folder in folders}
    known = dict.fromkeys(split for split, _ in named.values())
    for split in splits:
        choose(f"split at {place}", split, known)
    found = [
        folder
        for folder, (split, key8) in named.items()
        if (not splits or split in splits) and (entry is None or _names(entry, key8))
    ]
    if not found:
        keys = ", ".join(f"{split}-{key8}" for split, key8 in named.values())
        raise OptionError(f"--entry {entry}: {place} has no such entry; it has {keys}.")
    return found


def _names(entry: str, key8: str) -> bool:
    """Say whether the beginning of a key, or as much of it as a folder's name has, is typed."""
    return bool(entry) and key8.startswith(entry[: len(key8)])
