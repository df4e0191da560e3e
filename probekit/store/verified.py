"""An entry read as another one is made of it: every byte of it is checked on the way."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from probekit.errors import EntryError, EntryNotFoundError, reason_of
from probekit.store.backends import BACKENDS, ChunkPlaces
from probekit.store.backends.contract import REMEDY
from probekit.store.checksums import (
    ChunkAt,
    ChunkSum,
    chunk_spans,
    file_sums,
    parts_between,
    places_of,
    read_checksums,
    read_chunk,
)
from probekit.store.entry import Entry
from probekit.store.json_types import is_name
from probekit.store.layout import BACKBONE, CHECKSUMS, EXAMPLES, MANIFEST, standing
from probekit.store.lock import check_unlocked
from probekit.store.manifest import Manifest, manifest_in
from probekit.store.tables import ExampleTable


@dataclass(frozen=True)
class FileOutline:
    """A file of an entry without the chunks in it.

    Attributes:
        nbytes: its size, chunks included.
        parts: first byte and bytes of every run that is no chunk, in their order.
    """

    nbytes: int
    parts: tuple[tuple[int, bytes], ...]

    def write(self, file: Path) -> None:
        """Write it, with room for its chunks, and wait until it is on the disk."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as sink:
            sink.truncate(self.nbytes)
            for start, data in self.parts:
                sink.seek(start)
                sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())

    def sums(self) -> dict[str, Any]:
        """Return size and checksum as a manifest has them."""
        return file_sums(self.nbytes, (data for _, data in self.parts))


class VerifiedEntry:
    """A complete entry, of which nothing is given out that is not what was written.

    It is read as it stood when it was opened; where another one takes its place meanwhile, that is
    an error.

    Attributes:
        named: its folder.
        path: the folder it stands in.
        manifest: what it is.
        manifest_text: the manifest, as it lies on the disk.
    """

    def __init__(self, path: Path) -> None:
        """Open an entry that nobody is writing, and check its manifest against its seal.

        Raises:
            EntryLockedError: a process is writing it.
            EntryNotFoundError: there is no such folder.
            EntryError: it is unfinished or damaged, or lists files that no entry has.
        """
        check_unlocked(path)
        self.named = path
        self.entry = Entry.open(path)
        self.path = self.entry.folder
        self.manifest, self.manifest_text = self.sealed_manifest()

    def sealed_manifest(self) -> tuple[Manifest, str]:
        """Return the manifest in `path`, and its text, after comparing it with its seal.

        Raises:
            EntryError: it is damaged or altered, or lists files that no entry has.
        """
        manifest, text = manifest_in(self.path), _text(self.path)
        if text != manifest.to_json():
            raise EntryError(f"{self.path / MANIFEST} has changed since it was written. {REMEDY}")
        for name in manifest.files:
            if not _belongs(name, BACKENDS[manifest.backend].filename):
                raise EntryError(
                    f"{self.path / MANIFEST} lists {name!r:.80}, which is not a file of an entry."
                )
        if missing := sorted({EXAMPLES, CHECKSUMS} - manifest.files.keys()):
            raise EntryError(f"{self.path / MANIFEST} does not list {missing[0]}. {REMEDY}")
        return manifest, text

    @property
    def examples(self) -> ExampleTable:
        """The example table; errors as of `Entry.examples`."""
        return self.entry.examples

    def sum_of(self, array: str, row_chunk: int, layer_index: int) -> ChunkSum:
        """Return the checksum of a chunk of a stored array.

        Raises:
            EntryError: the table of checksums is damaged, or the entry was replaced.
        """
        return self._chunk_sums[array, row_chunk, layer_index]

    def chunk(self, chunk_sum: ChunkSum) -> bytes:
        """Return a chunk, by its checksum.

        Raises:
            EntryError: it is damaged, or the entry was replaced.
        """
        try:
            return read_chunk(chunk_sum, self.places[chunk_sum.array])
        except EntryError:
            self.check_standing()
            raise

    def outlines(self) -> dict[str, FileOutline]:
        """Return the store's files that are not of chunks alone, by their path in the entry.

        Raises:
            EntryError: one is damaged, or the entry was replaced.
        """
        return {name: self._outline(name) for name in self.manifest.files if self._is_store(name)}

    def small_files(self) -> dict[str, bytes]:
        """Return the tables and the files of the backbone, by their path in the entry.

        Raises:
            EntryError: one is damaged, or the entry was replaced.
        """
        names = [name for name in self.manifest.files if not self._is_store(name)]
        return {name: b"".join(data for _, data in self._outline(name).parts) for name in names}

    def backbone_files(self) -> dict[str, bytes]:
        """Return the contents of ``backbone/`` by file name; errors as of `small_files`."""
        files = {PurePosixPath(name): data for name, data in self.small_files().items()}
        return {path.name: data for path, data in files.items() if path.parts[0] == BACKBONE}

    @property
    def chunk_files(self) -> list[str]:
        """The files that hold chunks alone, by their path in the entry."""
        alone = (chunks for chunks in self.places.values() if chunks.tail is not None)
        return [str(Path(file).relative_to(self.path)) for chunks in alone for file in chunks.files]

    def check_standing(self) -> None:
        """Check that the entry still is the one that was opened.

        Raises:
            EntryError: another one has taken its place.
            EntryNotFoundError: it was removed.
        """
        folder = standing(self.named)
        if not (folder / MANIFEST).is_file():
            raise EntryNotFoundError(f"{self.named} was removed while it was read.")
        if _text(folder) != self.manifest_text:
            raise EntryError(f"{self.named} was replaced while it was read. Run the command again.")

    @cached_property
    def places(self) -> Mapping[str, ChunkPlaces]:
        """Where the chunks lie, by the names of stored arrays."""
        return places_of(self.path, self.manifest.backend, self.manifest.arrays)

    @cached_property
    def _chunk_sums(self) -> Mapping[ChunkAt, ChunkSum]:
        self._outline(CHECKSUMS)  # the table itself
        return read_checksums(self.path, self.manifest)

    @cached_property
    def _within(self) -> Mapping[str, list[tuple[int, int]]]:
        return chunk_spans(self.places.values())

    def _is_store(self, name: str) -> bool:
        return PurePosixPath(name).parts[0] == BACKENDS[self.manifest.backend].filename

    def _outline(self, name: str) -> FileOutline:
        file = self.path / name
        try:
            size = _size(file)
            spans = self._within.get(str(file), [])
            with file.open("rb") as source:
                outline = FileOutline(size, tuple(parts_between(source, spans, size)))
        except OSError as error:
            self.check_standing()
            raise EntryError(f"{file} cannot be read ({reason_of(error)}). {REMEDY}") from None
        if outline.sums() != self.manifest.files[name]:
            self.check_standing()
            raise EntryError(f"{file} has changed since it was written. {REMEDY}")
        return outline


def _text(folder: Path) -> str:
    file = folder / MANIFEST
    try:
        return file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EntryError(f"{file} cannot be read ({reason_of(error)}). {REMEDY}") from None


def _belongs(name: str, store: str) -> bool:
    """Say whether a path, which anybody may have written, is one of an entry's own files."""
    parts = name.split("/")
    if not all(map(is_name, parts)):
        return False
    if len(parts) == 1:
        return name in (EXAMPLES, CHECKSUMS, store)
    return parts[0] == store or (parts[0] == BACKBONE and len(parts) == 2)


def _size(file: Path) -> int:
    """Return the bytes of a regular file; a link, or a pipe that nobody writes to, is none.

    Raises:
        OSError: it is something else.
    """
    status = os.lstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(f"{file.name} is not a regular file")
    return status.st_size
