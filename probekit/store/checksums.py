"""Checksums of chunks and files: those of an entry, recomputed to compare."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import product
from pathlib import Path
from typing import Any

import xxhash

from probekit.base.notices import ProgressBar
from probekit.errors import EXTRACT_AGAIN, EntryError
from probekit.store.backends import BACKENDS, ChunkPlaces
from probekit.store.backends.contract import REMEDY
from probekit.store.files import checksum, file_sizes, read_span, walk_files
from probekit.store.layout import BUILDING, CHECKSUMS, MANIFEST, ArraySpec, standing
from probekit.store.manifest import Manifest, read_manifest
from probekit.store.tables import CHECKSUM_SCHEMA, read_table

_THREADS = 4  # hashing releases the interpreter's lock, and a disk likes a few requests at once
_BLOCK = 2**20

ChunkAt = tuple[str, int, int]
"""A plain array's name, and a chunk's numbers along rows and layers."""


@dataclass(frozen=True, slots=True)
class ChunkSum:
    """The checksum of one stored chunk.

    Attributes:
        array: name of the plain array.
        row_chunk: number along the rows.
        layer_index: position along the layers.
        nbytes: bytes of the chunk.
        xxh128: checksum of these bytes (`files.checksum`).
    """

    array: str
    row_chunk: int
    layer_index: int
    nbytes: int
    xxh128: str

    @property
    def at(self) -> ChunkAt:
        """Its array, and its numbers along rows and layers."""
        return self.array, self.row_chunk, self.layer_index


@dataclass(frozen=True, slots=True)
class DamagedChunk:
    """One chunk that is not what was written.

    Attributes:
        chunk: the checksum on record.
        file: the file that holds the chunk.
        offset: first byte of the chunk in the file.
        found: checksum of what is there; empty if the chunk is missing or short.
    """

    chunk: ChunkSum
    file: str
    offset: int
    found: str

    def __str__(self) -> str:
        """Describe the damage in one line."""
        c = self.chunk
        there = f"checksum {self.found[:12]}" if self.found else "it missing or short"
        return (
            f"array {c.array!r}, row chunk {c.row_chunk}, layer index {c.layer_index} "
            f"({self.file} at byte {self.offset}): expected checksum {c.xxh128[:12]}, found {there}"
        )


def verify_files(path: Path) -> list[str]:
    """Return what is wrong with the files of a complete entry, but for the bytes of its chunks.

    Args:
        path: the entry's folder.

    Raises:
        EntryError: the manifest cannot be read, or the store tells of other arrays.
    """
    path = standing(path)
    manifest = read_manifest(path)
    places = places_of(path, manifest.backend, manifest.arrays)
    present = other_files(path, places.values())
    written = (path / MANIFEST).read_text("utf-8")
    wrong = [] if written == manifest.to_json() else [_odd(path / MANIFEST)]
    for name in sorted({*manifest.files, *present}):
        if name not in manifest.files:
            wrong.append(f"{path / name} is not a file of the entry")
        elif name not in present:
            wrong.append(f"{path / name} is missing")
        elif manifest.files[name] != present[name]:
            wrong.append(_odd(path / name))
    return wrong + [_odd(file) for chunks in places.values() for file in _odd_ends(chunks)]


def verify_checksums(path: Path, *, progress: bool = False) -> list[DamagedChunk]:
    """Return the damaged, missing and short chunks of a complete entry (none: it is whole).

    Args:
        path: the entry's folder. It is not opened as an `Entry`, which a missing chunk prevents.
        progress: show progress on stderr.

    Raises:
        EntryError: manifest, store or checksum table is missing, damaged, or lists other chunks
            than the manifest's arrays have.
    """
    path = standing(path)
    manifest = read_manifest(path)
    chunks = read_checksums(path, manifest).values()
    places = places_of(path, manifest.backend, manifest.arrays)
    with ProgressBar(total=len(chunks), desc=path.name, unit="chunk", shown=progress) as bar:
        return list(damaged_chunks(chunks, places, bar.report))


def places_of(path: Path, backend: str, arrays: Iterable[ArraySpec]) -> dict[str, ChunkPlaces]:
    """Return where the chunks of an entry's arrays should lie, by the names of plain arrays.

    Args:
        path: the entry's folder, finished or not.
        backend: its backend.
        arrays: its arrays.

    Raises:
        EntryError: the store does not open, lacks an array, or holds another layout.
    """
    store, plain = BACKENDS[backend], [plain for spec in arrays for plain in spec.plain()]
    return {array.name: store.places(path / store.filename, array) for array in plain}


def chunk_spans(places: Iterable[ChunkPlaces]) -> dict[str, list[tuple[int, int]]]:
    """Return first byte and end of the chunks in files that hold other things as well, sorted."""
    spans = defaultdict[str, list[tuple[int, int]]](list)
    for chunks in places:
        if chunks.tail is None:
            starts = chunks.offsets.ravel().tolist()
            for index, start in zip(chunks.file_index.flat, starts, strict=True):
                spans[chunks.files[index]].append((start, start + chunks.array.chunk_nbytes))
    return {file: sorted(ranges) for file, ranges in spans.items()}


def read_checksums(path: Path, manifest: Manifest) -> dict[ChunkAt, ChunkSum]:
    """Return the checksums of an entry, one for every chunk of its arrays, by its place.

    Raises:
        EntryError: the table is missing or damaged, or lists other chunks, or other sizes.
    """
    written = manifest.checksum_of(CHECKSUMS)
    table = read_table(path / CHECKSUMS, CHECKSUM_SCHEMA, written=written)
    chunks = {chunk.at: chunk for chunk in (ChunkSum(**row) for row in table.to_pylist())}
    listed = {at: chunk.nbytes for at, chunk in chunks.items()}
    expected = {
        (plain.name, *at): plain.chunk_nbytes
        for spec in manifest.arrays
        for plain in spec.plain()
        for at in product(*map(range, plain.grid))
    }
    if len(table) != len(chunks) or listed != expected:
        raise EntryError(
            f"{path / CHECKSUMS} does not list every chunk of the manifest's arrays once, with "
            f"its size. {EXTRACT_AGAIN}"
        )
    return chunks


def damaged_chunks(
    chunks: Iterable[ChunkSum],
    places: Mapping[str, ChunkPlaces],
    report: Callable[[int], None] = lambda count: None,
) -> Iterator[DamagedChunk]:
    """Yield the chunks whose bytes differ from their checksums.

    Args:
        chunks: the checksums on record.
        places: where the chunks lie, by plain array name.
        report: receives the number of chunks examined since the last call.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        for damage in pool.map(lambda chunk: _examine(chunk, places[chunk.array])[1], chunks):
            report(1)
            if damage is not None:
                yield damage


def read_chunk(chunk: ChunkSum, places: ChunkPlaces) -> bytes:
    """Return the bytes of a chunk.

    Raises:
        EntryError: they differ from their checksum.
    """
    data, damage = _examine(chunk, places)
    if damage is not None:
        raise EntryError(f"{damage}. {REMEDY}")
    return data


def _examine(chunk: ChunkSum, places: ChunkPlaces) -> tuple[bytes, DamagedChunk | None]:
    at = chunk.row_chunk, chunk.layer_index
    file, offset = places.files[places.file_index[at]], int(places.offsets[at])
    data = b""  # where the chunk was never allocated
    if offset >= 0:
        data = read_span(file, offset, chunk.nbytes)
    actual = checksum(data) if len(data) == chunk.nbytes else ""
    return data, None if actual == chunk.xxh128 else DamagedChunk(chunk, file, offset, actual)


def other_files(folder: Path, places: Iterable[ChunkPlaces]) -> dict[str, dict[str, Any]]:
    """Return bytes and checksum of each file that is not of chunks alone, by its path inside.

    The manifest is left out, and so is what a kill left of the building. Of a file that holds
    chunks among other things, such as HDF5's, the checksum is that of the other things.

    Args:
        folder: the entry's folder.
        places: of all its stored arrays.
    """
    places = list(places)
    spans = chunk_spans(places)
    alone = {file for chunks in places if chunks.tail is not None for file in chunks.files}
    sums = {}
    for name in sorted(walk_files(folder), key=str):  # the same wherever it lies
        file = folder / name
        ours = name.parts[0] == BUILDING or str(name) == MANIFEST
        if not ours and str(file) not in alone:
            sums[str(name)] = _sums(file, spans.get(str(file), []))
    return sums


def _sums(file: Path, spans: list[tuple[int, int]]) -> dict[str, Any]:
    """Return size and checksum of a file without its chunks; of a link, of where it leads."""
    size = os.lstat(file).st_size
    if file.is_symlink():
        return file_sums(size, [os.readlink(file).encode("utf-8", "surrogateescape")])
    with file.open("rb") as source:
        return file_sums(size, (part for _, part in parts_between(source, spans, size)))


def parts_between(
    source: BufferedIOBase, chunks: Iterable[tuple[int, int]], nbytes: int
) -> Iterator[tuple[int, bytes]]:
    """Yield what a file holds besides chunks, in blocks, each with its first byte.

    Args:
        source: the file.
        chunks: first byte and end of each, sorted.
        nbytes: of the file.
    """
    start = 0
    for first, last in (*chunks, (nbytes, nbytes)):
        for at in range(start, first, _BLOCK):
            source.seek(at)
            yield at, source.read(min(_BLOCK, first - at))
        start = max(start, last)


def file_sums(nbytes: int, parts: Iterable[bytes]) -> dict[str, Any]:
    """Return what a manifest says of a file: its size, and the 128 bits of XXH3 of some parts."""
    state = xxhash.xxh3_128()
    for part in parts:
        state.update(part)
    return {"nbytes": nbytes, "xxh128": state.hexdigest()}


def _odd(file: Path) -> str:
    return f"{file} has changed since it was written"


def _odd_ends(places: ChunkPlaces) -> Iterator[Path]:
    """Yield the files of chunks alone that hold something else behind their last chunk."""
    if places.tail is None:
        return
    end = int(places.offsets.max()) + places.array.chunk_nbytes
    for file, size in zip(places.files, file_sizes(places.files), strict=True):
        # one that is missing or short is told of chunk by chunk
        odd = size - end != len(places.tail)
        if size >= end and (odd or read_span(file, end, size - end) != places.tail):
            yield Path(file)
