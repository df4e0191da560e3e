"""Pull entries, or layers of them, from a folder, a bucket or the Hub into a cache."""

import weakref
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from probekit.base.registry import PathName, choose
from probekit.base.replacing import scratch
from probekit.errors import DataError, EntryError, OptionError
from probekit.exchange.hub_remote import remote_at
from probekit.exchange.remote_entry import RemoteEntry, entry_folders
from probekit.exchange.remotes import Remote
from probekit.extraction.drafting import write_split_labels
from probekit.extraction.maintenance.entry_copy import PULL, EntryCopy
from probekit.store.entry import Entries
from probekit.store.files import check_room, typed_path
from probekit.store.layout import split_and_key
from probekit.store.manifest import Manifest
from probekit.tasks import TASKS, Split, Task, TextOptions, get_task


@dataclass(frozen=True, kw_only=True)
class TextSource(TextOptions):
    """Where whoever pulls has the text, and how it is read.

    Attributes:
        data: folder with the task's published files, or path of the user's own data; None reads a
            task of probekit's from where it is published.
        label: for the user's own data, the label column.
    """

    data: Path | None = None
    label: str | None = None

    def read(self, manifest: Manifest) -> tuple[Split, Task]:
        """Return the split whose text an entry is of, and its task.

        Raises:
            OptionError: the text is the user's own, and ``data`` does not say where it lies.
            DataError: it is another text.
        """
        name, split = manifest.task, manifest.split
        if name.partition("/")[0] in TASKS:
            task, data = get_task(name, TextOptions(**self.given), self.label), self.data
        elif self.data is None:
            raise OptionError(
                f"{name} {split} was pushed without its text, so say where you have it: --data "
                "PATH."
            )
        else:
            options = self.or_as({"kind": manifest.kind, **(manifest.read or {})})
            task, data = get_task(str(self.data), options, self.label), None
        fresh = task.read(split, data).first(manifest.limit)
        expected, fingerprint = manifest.request["text"], fresh.text_fingerprint()
        if fingerprint != expected:
            count, held = manifest.counts["examples"], len(fresh.examples)
            differs = (
                f"{held:,} examples, not {count:,}" if held != count else "as many, other ones"
            )
            raise DataError(
                f"{fresh.origin}, split {fresh.name!r}, is not the text of {manifest.task} "
                f"{manifest.split}: expected fingerprint {expected[:8]}, found {fingerprint[:8]} "
                f"({differs}). Give the same files, read in the same way: ids and words count, "
                "labels do not."
            )
        return fresh, task


@dataclass(frozen=True)
class Pull:
    """Entries at a place that are to come into a cache.

    Attributes:
        remote: where they are.
        entries: each that is wanted, and the copy of what is wanted of it.
        cache: root of the cache.
        source: where the text is, of those that were pushed without.
    """

    remote: Remote
    entries: Mapping[RemoteEntry, EntryCopy]
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
        entries: dict[RemoteEntry, EntryCopy] = {}
        planned = cls(remote, entries, root, source or TextSource())
        small_files = ExitStack()
        weakref.finalize(planned, small_files.close)
        here = small_files.enter_context(scratch())
        for folder in folders:
            stored = RemoteEntry(remote, sizes, folder, here)
            entries[stored] = EntryCopy.part_of(stored, root, layers, arrays, made_by=PULL)
        return planned

    @property
    def sizes(self) -> Mapping[Path, int]:
        """Bytes that are read of each entry, by where it goes; none of one that is there."""
        return {
            copy.path: 0 if copy.there else copy.nbytes + entry.small_nbytes
            for entry, copy in self.entries.items()
        }

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
        texts = [self._text(entry, copy) for entry, copy in self.entries.items()]
        needed = sum(copy.nbytes_left for copy in self.entries.values())
        less = "take fewer layers (--layers), or choose another --cache"
        check_room(self.cache, needed, "this pull", less)
        made = Entries()
        for (entry, copy), text in zip(self.entries.items(), texts, strict=True):
            entry.download_labels()
            if not copy.there:
                entry.download(None if text is None else text[0])
            if text is not None:
                write_split_labels(copy.path, entry.manifest.request["text"], *text)
            with copy.bar(shown=progress and not copy.there) as bar:
                made.append(copy.apply(bar.report))
        return made

    def _text(self, entry: RemoteEntry, copy: EntryCopy) -> tuple[Split, Task] | None:
        """Read the text of an entry that was pushed without; None where none is needed."""
        there = copy.there and self.source.data is None
        return self.source.read(entry.manifest) if entry.withheld and not there else None


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
        if (not splits or split in splits)
        # of a key, its beginning is typed, or more than a folder's name has
        and (entry is None or (entry and key8.startswith(entry[: len(key8)])))
    ]
    if not chosen:
        keys = ", ".join(f"{split}-{key8}" for split, key8 in named.values())
        raise OptionError(f"--entry {entry}: {remote} has no such entry; it has {keys}.")
    return chosen
