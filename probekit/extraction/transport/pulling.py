"""Pull entries, or layers of them, from a data set repository of the Hub."""

import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probekit.base.notices import ProgressBar
from probekit.base.registry import choose
from probekit.errors import OptionError
from probekit.extraction.transport.arrival import Arrival
from probekit.extraction.transport.incoming_entry import IncomingEntry
from probekit.extraction.transport.remote_entry import RemoteEntry, folders_in
from probekit.extraction.transport.remote_files import RemoteFiles
from probekit.extraction.transport.withheld_text import TextSource
from probekit.store.entry import Entry
from probekit.store.layout import split_and_key
from probekit.store.objects.object_path import root_of
from probekit.tasks import Split, Task


@dataclass(frozen=True)
class Pull:
    """Entries of a repository that are to come into a cache.

    Attributes:
        remote: the repository, at one commit.
        entries: what is wanted of it.
        source: where the text is, of those that were pushed without.
    """

    remote: RemoteFiles
    entries: Sequence[IncomingEntry]
    source: TextSource = field(default_factory=TextSource)

    @classmethod
    def of(
        cls,
        repo: str,
        cache: Path = Path("cache"),
        *,
        splits: Collection[str] = (),
        entry: str | None = None,
        layers: str | None = None,
        arrays: Collection[str] = (),
        revision: str | None = None,
        source: TextSource | None = None,
    ) -> "Pull":
        """Ask the Hub what there is, and check what it says; nothing is written.

        Args:
            repo: ``org/name`` of a data set repository that `Push` made.
            cache: root of the cache.
            splits: the splits; none is all.
            entry: the beginning of a key, where a repository has several entries of a split.
            layers: the layers, as `parse_layers` reads them; None is all.
            arrays: the arrays; none is all.
            revision: branch, tag or commit; None is the main branch.
            source: where the text is, of entries that were pushed without.

        Raises:
            HubError: there is no such repository, no access to it, or no answer.
            EntryError: it is no probekit cache, or a file is missing, damaged or too new.
            OptionError: it has no such split, entry, layer.
        """
        remote = RemoteFiles.find(repo, revision)
        with tempfile.TemporaryDirectory(prefix="probekit-pull-") as here:
            found = [
                RemoteEntry.read(remote, folder, Path(here))
                for folder in _chosen(folders_in(remote), splits, entry)
            ]
        incoming = [IncomingEntry.of(one, root_of(cache), layers, arrays) for one in found]
        return cls(remote, incoming, source or TextSource())

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of every file that is read, by its path; none of entries that are there already."""
        return {
            name: size
            for one in self.entries
            if not one.complete
            for name, size in one.sizes.items()
        }

    def apply(self, *, progress: bool = False) -> list[Entry]:
        """Bring the entries into the cache; one that is there already stays as it is.

        Every chunk is compared with its checksum. What an interrupted pull has brought is kept, and
        not loaded again.

        Args:
            progress: show progress on stderr.

        Raises:
            HubError: a file cannot be downloaded.
            EntryError: a file is not what its checksum says, or what no entry holds.
            DataError: the text is another one than that of the entry.
            OptionError: an entry was pushed without its text, and ``source`` does not say where.
            EntryLockedError: another process writes an entry.
            StorageError: the cache cannot be written, or there is no room.
        """
        texts = [self._text(one) for one in self.entries]
        bar = ProgressBar(
            total=sum(self.sizes.values()), desc=f"pull {self.remote.repo}", unit="B",
            unit_scale=True, shown=progress,
        )  # fmt: skip
        with bar:
            pairs = zip(self.entries, texts, strict=True)
            return [Arrival(one, text, bar.report).bring() for one, text in pairs]

    def _text(self, one: IncomingEntry) -> tuple[Split, Task] | None:
        """Read the text of an entry that was pushed without, before anything is downloaded."""
        here_already = one.complete and self.source.data is None
        given = one.found.form.text or here_already
        return None if given else self.source.read(one.found.manifest)


def _chosen(folders: Sequence[str], splits: Collection[str], entry: str | None) -> list[str]:
    """Return the folders of some splits, and of a key.

    Raises:
        OptionError: there is no such split or key.
    """
    named = {folder: split_and_key(folder.rpartition("/")[2]) or ("", "") for folder in folders}
    known = dict.fromkeys(split for split, _ in named.values())
    for split in splits:
        choose("split of the repository", split, known)
    found = [
        folder
        for folder, (split, key8) in named.items()
        if (not splits or split in splits) and (entry is None or _names(entry, key8))
    ]
    if not found:
        keys = ", ".join(f"{split}-{key8}" for split, key8 in named.values())
        raise OptionError(f"--entry {entry}: the repository has no such entry; it has {keys}.")
    return found


def _names(entry: str, key8: str) -> bool:
    """Say whether the beginning of a key, or as much of it as a folder's name has, is typed."""
    return bool(entry) and key8.startswith(entry[: len(key8)])
