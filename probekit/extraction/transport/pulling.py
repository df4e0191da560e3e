"""Pull entries, or layers of them, from a data set repository of the Hub."""

import logging
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from probekit.base.notices import ProgressBar, human_bytes
from probekit.base.registry import choose
from probekit.errors import EntryError, OptionError, StorageError
from probekit.extraction.drafting import write_split_labels
from probekit.extraction.maintenance.entry_part import asked_arrays, part_manifest, part_table
from probekit.extraction.transport.remote_entry import RemoteEntry, folders_in
from probekit.extraction.transport.remote_files import (
    PULL_AGAIN,
    PUSH_AGAIN,
    RemoteFiles,
    pushed_errors,
)
from probekit.extraction.transport.transport_form import (
    FileSum,
    LayerFile,
    label_path,
)
from probekit.extraction.transport.withheld_text import TextSource, restore
from probekit.store.builder import EntryBuilder
from probekit.store.checksums import read_checksums
from probekit.store.entry import Entry, folder_of_key
from probekit.store.files import disk_bytes, free_bytes, storage_errors, write_whole
from probekit.store.json_types import is_name
from probekit.store.labels import read_labels
from probekit.store.layout import (
    BACKBONE,
    BUILDING,
    CHECKSUMS,
    EXAMPLES,
    MANIFEST,
    PARTIAL,
    beside,
    entry_folder,
    labels_folder,
    split_and_key,
)
from probekit.store.manifest import Manifest
from probekit.store.marks import ChunkSum, checksum
from probekit.store.tables import EXAMPLE_SCHEMA, OPTIONAL_SCHEMA, ExampleTable, read_table
from probekit.tasks import Split, Task
from probekit.tasks.task import slugify

logger = logging.getLogger(__name__)

_STAGED = "pulled"
"""Folder of what was downloaded and is not yet where it belongs, in that of the building."""


@dataclass(frozen=True)
class IncomingEntry:
    """An entry of a repository, the part of it that is wanted, and where that goes.

    Attributes:
        found: the entry there.
        manifest: of the part; of the whole where all is wanted.
        path: the folder of what is made.
    """

    found: RemoteEntry
    manifest: Manifest
    path: Path

    @classmethod
    def of(
        cls, found: RemoteEntry, cache: Path, layers: str | None, arrays: Collection[str]
    ) -> "IncomingEntry":
        """Plan it, and check that everything is there, in its size.

        Raises:
            OptionError: a layer is in none of the arrays.
            EntryError: the entry has no such array; a file is missing or of another size.
        """
        whole = found.manifest
        part = part_manifest(whole, asked_arrays(whole, layers, arrays))
        slug = slugify(whole.task)
        path = folder_of_key(cache, part.split, part.key, slug) or entry_folder(
            cache, part.model, slug, part.split, part.key
        )
        one = cls(found, part, path)
        for name, size in one.sizes.items():
            found.remote.check(name, size)
        return one

    @property
    def complete(self) -> bool:
        """Whether the cache has it already."""
        return self.path.exists()

    @property
    def layer_files(self) -> list[LayerFile]:
        """The files of chunks that are wanted; each is a unit of the building."""
        return self.found.form.files(self.manifest.arrays, self.found.manifest)

    @cached_property
    def small(self) -> dict[str, FileSum]:
        """The other files, by their paths in the entry's folder.

        Raises:
            EntryError: the manifest names a file that no entry has.
        """
        form, told = self.found.form, self.found.manifest.files
        needed = [CHECKSUMS, *([EXAMPLES] if form.text else []), *filter(_of_backbone, told)]
        try:
            files = {name: FileSum(told[name]["nbytes"], told[name]["xxh128"]) for name in needed}
        except KeyError as error:
            raise EntryError(
                f"{self.where(MANIFEST)} does not say {error} of every file. {PUSH_AGAIN}"
            ) from None
        labels = {label_path(name): found for name, found in form.labels.items()}
        return {EXAMPLES: form.examples, **files, **labels}

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of every file that is read, by its path in the repository."""
        files = {name: found.nbytes for name, found in self.small.items()}
        files |= {file.name: file.nbytes for file in self.layer_files}
        return {f"{self.found.folder}/{name}": size for name, size in files.items()}

    def where(self, name: str) -> str:
        """Return what messages call a file."""
        return f"{self.found.remote}: {self.found.folder}/{name}"

    def check_room(self) -> None:
        """Check that the disk holds it, and the one file that is on its way.

        Raises:
            StorageError: it does not.
        """
        largest = max(file.nbytes for file in self.layer_files)
        begun = disk_bytes(beside(self.path, PARTIAL))
        needed = max(sum(self.sizes.values()) - begun, 0) + largest
        if needed > (free := free_bytes(self.path)):
            raise StorageError(
                f"{self.path}: {human_bytes(needed)} are needed, and {human_bytes(free)} are free. "
                "Free some space, take fewer layers (--layers), or choose another --cache."
            )

    @property
    def plan(self) -> dict[str, Any]:
        """What a pull that goes on must share with the one that was killed."""
        return {
            "request": dict(self.manifest.request),
            "pulled": dict(self.found.manifest.files.get(CHECKSUMS, {})),
            "limit": self.manifest.limit,
            "backend": self.manifest.backend,
            "arrays": [spec.to_json() for spec in self.manifest.arrays],
            "units": [file.name for file in self.layer_files],
        }


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
        incoming = [IncomingEntry.of(one, cache, layers, arrays) for one in found]
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
            return [_Arrival(one, text, bar.report).bring() for one, text in pairs]

    def _text(self, one: IncomingEntry) -> tuple[Split, Task] | None:
        """Read the text of an entry that was pushed without, before anything is downloaded."""
        here_already = one.complete and self.source.data is None
        given = one.found.form.text or here_already
        return None if given else self.source.read(one.found.manifest)


class _Arrival:
    """One entry on its way into the cache."""

    def __init__(
        self,
        one: IncomingEntry,
        text: tuple[Split, Task] | None,
        report: Callable[[int | str], None],
    ) -> None:
        self._one, self._text, self._report = one, text, report

    def bring(self) -> Entry:
        """Bring the entry, then its labels."""
        one = self._one
        if one.complete:
            logger.info("%s: complete already", one.path)
            entry = Entry.open(one.path)
            with tempfile.TemporaryDirectory(prefix="probekit-pull-") as temporary:
                self._keep_labels(entry, self._labels(Path(temporary)))
            return entry
        one.check_room()
        with EntryBuilder(one.path, plan=one.plan) as builder:
            here = builder.partial / BUILDING / _STAGED
            with storage_errors(builder.partial):
                here.mkdir(exist_ok=True)
                table, sums = self._examples(here), self._checksums(here)
                for unit, file in enumerate(one.layer_files):
                    if unit in builder.marks:
                        self._report(file.nbytes)
                        continue
                    path = self._fetch(file.name, here)
                    builder.copy_unit(unit, self._chunks(file, path, sums))
                    path.unlink()
                kept = {
                    name.removeprefix(f"{BACKBONE}/"): self._read(name, here)
                    for name in one.small
                    if _of_backbone(name)
                }
                labels = self._labels(here)
            entry = builder.complete(one.manifest, part_table(table, one.manifest), kept)
        self._keep_labels(entry, labels)
        return entry

    def _fetch(self, name: str, here: Path) -> Path:
        """Download a file of the entry; bytes that were there before are reported as well."""
        came = 0

        def count(nbytes: int) -> None:
            nonlocal came
            came += nbytes
            self._report(nbytes)

        self._report(name)
        path = self._one.found.remote.fetch(f"{self._one.found.folder}/{name}", here, count)
        self._report(path.stat().st_size - came)
        return path

    def _read(self, name: str, here: Path) -> bytes:
        """Return the bytes of a small file, if they are those that were pushed."""
        path = self._fetch(name, here)
        try:
            return self._one.small[name].check(path.read_bytes(), self._one.where(name))
        except EntryError:
            path.unlink()  # so that the next pull loads it again
            raise

    def _examples(self, here: Path) -> pa.Table:
        """Return the example table of the whole entry, with its text."""
        self._read(EXAMPLES, here)
        file, where = here / self._one.found.folder / EXAMPLES, self._one.where(EXAMPLES)
        with pushed_errors():
            if self._text is None:
                table = read_table(file, EXAMPLE_SCHEMA, OPTIONAL_SCHEMA)
            else:
                table = restore(file, self._text[0], where)
            rows = {spec.name: spec.rows for spec in self._one.found.manifest.arrays}
            ExampleTable(table).check(rows, where)
        return table

    def _checksums(self, here: Path) -> dict[tuple[str, int, int], ChunkSum]:
        """Return the checksum of every chunk of the whole entry, by its place."""
        self._read(CHECKSUMS, here)
        found = self._one.found
        with pushed_errors():
            listed = read_checksums(here / found.folder, found.manifest)
        return {(c.array, c.row_chunk, c.layer_index): c for c in listed}

    def _chunks(
        self, file: LayerFile, path: Path, sums: Mapping[tuple[str, int, int], ChunkSum]
    ) -> Iterator[tuple[ChunkSum, bytes]]:
        """Yield the chunks of a file, verified, at their places in what is made."""
        before = file.array.layers.index(file.layer)
        at = self._one.manifest.array(file.array.name).layers.index(file.layer)
        with path.open("rb") as source:
            for plain, row_chunk in file.chunks:
                start, told = source.tell(), sums[plain.name, row_chunk, before]
                data = source.read(plain.chunk_nbytes)
                if checksum(data) != told.xxh128:
                    path.unlink()  # so that the next pull loads it again
                    raise EntryError(
                        f"{self._one.where(file.name)} is damaged at byte {start}: expected "
                        f"checksum {told.xxh128[:12]}, found {checksum(data)[:12]}. {PULL_AGAIN}"
                    )
                yield replace(told, layer_index=at), data

    def _labels(self, here: Path) -> dict[str, bytes]:
        """Return the label files by their names, checked to be some of this text.

        Raises:
            EntryError: one is none, or of another text.
        """
        found, manifest = {}, self._one.found.manifest
        for name in self._one.found.form.labels:
            found[name] = self._read(label_path(name), here)
            with pushed_errors():
                file = read_labels(here / self._one.found.folder / label_path(name)).file
            if file.of != (manifest.split, manifest.request["text"]):
                raise EntryError(
                    f"{self._one.where(label_path(name))} labels another text. {PUSH_AGAIN}"
                )
        return found

    def _keep_labels(self, entry: Entry, labels: Mapping[str, bytes]) -> None:
        """Write labels beside an entry; a version of them that is there stays."""
        folder = labels_folder(entry.path)
        with storage_errors(folder):
            for name, data in labels.items():
                folder.mkdir(exist_ok=True)
                if not (folder / name).exists():
                    write_whole(folder / name, data)
        if self._text is not None:
            write_split_labels(entry.path, entry.manifest.request["text"], *self._text)


def _of_backbone(name: str) -> bool:
    return name.startswith(f"{BACKBONE}/") and is_name(name.removeprefix(f"{BACKBONE}/"))


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
