"""Where an entry is built, and how what was built becomes the entry: by rename, or by a switch."""

import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from probekit.base.replacing import is_left
from probekit.errors import OptionError
from probekit.store.arrays import PlainArray
from probekit.store.backends import BACKENDS, ChunkPlaces, ChunkWriter
from probekit.store.checksums import damaged_chunks
from probekit.store.files import file_sizes, remove_path
from probekit.store.layout import (
    BACKBONE,
    BUILDING,
    CHECKSUMS,
    EXAMPLES,
    MANIFEST,
    PARTIAL,
    REPLACED,
    beside,
    content_of,
    standing,
)
from probekit.store.lock import EntryLock, install
from probekit.store.marks import ChunkSum
from probekit.store.objects.chunk_window import REQUESTS
from probekit.store.objects.generations import POINTER, begin_generation, switch_tag, turn_switch
from probekit.store.objects.object_path import ObjectPath

_STAGED = "staged"
"""Folder of what is not yet where it belongs, in that of the building."""


_PARTS = {MANIFEST, EXAMPLES, CHECKSUMS, BACKBONE, BUILDING, POINTER} | {
    backend.filename for backend in BACKENDS.values()
}
"""What an entry's folder may hold."""


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds more than an entry does, whole or not: it is to be removed.

    Raises:
        OptionError: it does, or is a file; a link in it loses nothing.
    """
    if isinstance(folder, ObjectPath) or not folder.exists():
        return
    inside = folder.iterdir() if folder.is_dir() else [folder]
    ours = (one for one in inside if not (one.is_symlink() or is_left(one)))
    names = {one.name.removesuffix(".new") for one in ours}  # a store that a kill left half-made
    if others := sorted(names - _PARTS):
        raise OptionError(
            f"{folder} holds {others[0]}, which is no part of an entry. Nothing was removed; take "
            "it away first."
        )


class BuildingSite(ABC):
    """Where one entry is built.

    Attributes:
        path: the entry's final folder.
        partial: the folder of what is begun: plan and marks.
        content: the folder of the store and the tables; it becomes the entry.
        at_once: how many chunks are written at a time, where that is more than are encoded.
    """

    at_once: ClassVar[int]

    def __init__(self, path: Path) -> None:
        """Look at what is there; the entry's lock is held."""
        self.path, self.partial = path, beside(path, PARTIAL)
        self._recover()
        self.content = content_of(self.partial)

    @staticmethod
    def at(path: Path) -> "BuildingSite":
        """Return the site of an entry, whose lock is held."""
        return _Store(path) if isinstance(path, ObjectPath) else _Folder(path)

    @property
    def is_begun(self) -> bool:
        """Whether something is begun."""
        return self.partial.exists()

    def clear(self) -> None:
        """Remove what is begun."""
        remove_path(self.partial)

    @abstractmethod
    def begin(self) -> None:
        """Make room for a new build; nothing is begun."""

    @abstractmethod
    def staging(self) -> AbstractContextManager[Path]:
        """Give a folder of this machine for what is not yet where it belongs.

        Where it can, it stays when the block raises, for the next run.
        """

    @abstractmethod
    def is_still_begun(self) -> bool:
        """Say whether what was begun here has not become the entry, or been removed."""

    @abstractmethod
    def torn(
        self, chunks: Mapping[ChunkSum, int], places: Mapping[str, ChunkPlaces]
    ) -> set[ChunkSum]:
        """Return the chunks that are not what an earlier run wrote."""

    @abstractmethod
    def guarded(self, writer: ChunkWriter, lock: EntryLock) -> ChunkWriter:
        """Return a writer that writes while the lock is held."""

    @abstractmethod
    def install(self) -> None:
        """Make what is sealed the entry.

        Raises:
            EntryLockedError: another process was first.
        """

    @abstractmethod
    def _recover(self) -> None:
        """Mend what a kill between two steps of `install` left."""


class _Folder(BuildingSite):
    """A folder beside the entry's, which is renamed."""

    at_once = 1

    def begin(self) -> None:
        self.partial.mkdir(parents=True)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        folder = self.partial / BUILDING / _STAGED  # gone with the rest when the entry is whole
        folder.mkdir(exist_ok=True)
        yield folder

    def is_still_begun(self) -> bool:
        return self.partial.exists()

    def torn(
        self, chunks: Mapping[ChunkSum, int], places: Mapping[str, ChunkPlaces]
    ) -> set[ChunkSum]:
        # a machine that lost power may have lost what was written
        return {damage.chunk for damage in damaged_chunks(chunks, places)}

    def guarded(self, writer: ChunkWriter, lock: EntryLock) -> ChunkWriter:
        return writer  # the lock goes with the process

    def install(self) -> None:
        install(self.partial, self.path)
        # Only now: a kill before the rename must find the units done.
        shutil.rmtree(self.path / BUILDING)

    def _recover(self) -> None:
        replaced = beside(self.path, REPLACED)
        refuse_foreign(replaced)
        refuse_foreign(self.partial)
        if replaced.exists() and not self.path.exists():  # killed between the two renames
            replaced.rename(self.path)
        elif replaced.exists():
            shutil.rmtree(replaced)


class _Store(BuildingSite):
    """A generation in an object store, to which the entry's switch is turned."""

    path: ObjectPath
    partial: ObjectPath
    content: ObjectPath
    at_once = REQUESTS  # what is sent is waited for

    def begin(self) -> None:
        self.content = begin_generation(self.path, self.partial)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="probekit-staged-") as folder:
            yield Path(folder)

    def is_still_begun(self) -> bool:
        return content_of(self.partial) == self.content

    def clear(self) -> None:
        content = content_of(self.partial)
        super().clear()
        remove_path(content)

    def torn(
        self, chunks: Mapping[ChunkSum, int], places: Mapping[str, ChunkPlaces]
    ) -> set[ChunkSum]:
        # an object is there whole and for good, or not at all
        found = {name: np.array(file_sizes(place.files)) for name, place in places.items()}
        missing = set()
        for chunk in chunks:
            place, at = places[chunk.array], (chunk.row_chunk, chunk.layer_index)
            end = int(place.offsets[at]) + chunk.nbytes
            if found[chunk.array][place.file_index[at]] < end:
                missing.add(chunk)
        return missing

    def guarded(self, writer: ChunkWriter, lock: EntryLock) -> ChunkWriter:
        return _Guarded(writer, lock.check)

    def install(self) -> None:
        manifest = (self.content / MANIFEST).read_text()
        turn_switch(self.path / MANIFEST, self.content, manifest, self._seen)
        remove_path(self.partial)

    def _recover(self) -> None:
        self._seen = switch_tag(self.path / MANIFEST)
        # killed after the switch
        if self.partial.exists() and content_of(self.partial) == standing(self.path):
            remove_path(self.partial)


@dataclass
class _Guarded:
    """A writer that asks whether it still may, before it writes."""

    writer: ChunkWriter
    check: Callable[[], None]

    def write(self, array: PlainArray, row_chunk: int, layer_index: int, data: np.ndarray) -> None:
        self.check()
        self.writer.write(array, row_chunk, layer_index, data)

    def sync(self) -> None:
        self.check()
        self.writer.sync()

    def close(self) -> None:
        self.writer.close()
