"""The backend contract: allocate plain arrays, write whole chunks, tell where chunks lie.

Chunks are uncompressed, so a reader needs no backend: it maps the bytes at the places given.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from probekit.base.replacing import sync_path
from probekit.errors import EntryError
from probekit.store.files import WholeFiles, file_sizes
from probekit.store.layout import PlainArray

REMEDY = "Run `probekit cache verify` on the entry, then extract it again with --overwrite."


@dataclass(frozen=True, slots=True)
class ChunkPlaces:
    """Where every chunk of a plain array lies.

    Attributes:
        array: the plain array.
        files: the files that hold chunks, each by its path.
        file_index: position in ``files`` per chunk, int64 (row chunks, layers).
        offsets: first byte in that file per chunk, int64 (row chunks, layers); -1: not allocated.
        tail: what each file holds after its chunks; None if files hold other arrays as well.
    """

    array: PlainArray
    files: tuple[str, ...]
    file_index: np.ndarray
    offsets: np.ndarray
    tail: bytes | None

    def check(self) -> "ChunkPlaces":
        """Return self.

        Raises:
            EntryError: a chunk is missing or short; names the first and counts the rest.
        """
        sizes = np.array(file_sizes(self.files), dtype=np.int64)
        held, ends = sizes[self.file_index], self.offsets + self.array.chunk_nbytes
        damaged = np.argwhere((self.offsets < 0) | (held < ends))
        if len(damaged):
            row_chunk, layer_index = at = tuple(damaged[0].tolist())
            problem = f"is too short: expected the file to hold {ends[at]} bytes, found {held[at]}"
            if held[at] < 0 or self.offsets[at] < 0:
                problem = "is missing"
            more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
            raise EntryError(
                f"array {self.array.name!r}: chunk (row chunk {row_chunk}, layer index "
                f"{layer_index}) {problem} ({self.files[self.file_index[at]]}){more}. {REMEDY}"
            )
        return self


class ChunkWriter:
    """Writes whole chunks into allocated arrays, of several threads at a time."""

    def __init__(self, path: Path, places: Iterable[ChunkPlaces]) -> None:
        """Keep the store's path, and where the chunks of its arrays lie, by the arrays' names."""
        self._path, self._files = path, WholeFiles()
        self.places = {chunks.array.name: chunks for chunks in places}

    def write(self, array: PlainArray, row_chunk: int, layer_index: int, data: np.ndarray) -> None:
        """Write one whole chunk and wait until its bytes are on the disk.

        ``data`` is C-contiguous, of the array's dtype and chunk shape. The last layer's chunk of a
        file brings what the file holds after its chunks.

        Raises:
            OSError: the file system refuses.
        """
        places, at = self.places[array.name], (row_chunk, layer_index)
        file, offset = Path(places.files[places.file_index[at]]), int(places.offsets[at])
        alone = places.tail == b""
        self._files.write(file, data.data, at=None if alone else offset)
        if places.tail and layer_index == array.grid[1] - 1:
            self._files.write(file, memoryview(places.tail), at=offset + data.nbytes)

    def sync(self) -> None:
        """Put on the disk what `write` did not: what `create` made, and the names of chunks."""
        of_chunks = {
            file
            for places in self.places.values()
            if places.tail is not None
            for file in places.files
        }
        for path in (self._path, *self._path.rglob("*")):
            if str(path) not in of_chunks:
                sync_path(path)


@runtime_checkable
class Backend(Protocol):
    """One way of storing plain arrays.

    Attributes:
        name: name in the registry and the manifest.
        filename: name of the file or folder inside an entry.
        inside: pattern of the paths of its files, behind its own.
    """

    name: str
    filename: str
    inside: str

    def n_maps(self, array: PlainArray) -> int:
        """Return how many files a reader maps for ``array``."""

    def create(self, path: Path, arrays: Sequence[PlainArray]) -> None:
        """Create ``path`` with every array allocated; whole, or not there at all."""

    def open_writer(self, path: Path, arrays: Sequence[PlainArray]) -> ChunkWriter:
        """Return a writer for what `create` made.

        Raises:
            EntryError: what is there is not what `create` made, or torn.
        """

    def places(self, path: Path, array: PlainArray) -> ChunkPlaces:
        """Return where the chunks of ``array`` should lie, without looking whether they do.

        Raises:
            EntryError: the store does not open, lacks the array, or holds another layout.
        """


def check_layout(path: Path, array: PlainArray, stored: dict[str, object]) -> None:
    """Raise unless a store describes an array as the manifest does.

    Args:
        path: the store, or its file that says so, for the message.
        array: what the manifest says.
        stored: ``shape``, ``chunks``, ``dtype`` and ``codecs`` as the store has them.

    Raises:
        EntryError: a field differs.
    """
    expected: dict[str, object] = {
        "shape": array.shape,
        "chunks": array.chunks,
        "dtype": array.dtype,
        "codecs": "uncompressed",
    }
    for field, value in expected.items():
        if stored[field] != value:
            raise EntryError(
                f"{path}: array {array.name!r} has {field} {stored[field]}, "
                f"its manifest says {value}. {REMEDY}"
            )
