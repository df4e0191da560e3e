"""Checksums of chunks and files: make them, and recompute those of stored chunks to compare."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import xxhash

from probekit.errors import EntryError
from probekit.store.backends.base import REMEDY, ChunkPlaces
from probekit.store.marks import ChunkSum

_THREADS = 4  # hashing releases the interpreter's lock, and a disk likes a few requests at once
_BLOCK = 2**20


def checksum(data: bytes | memoryview) -> str:
    """Return the 128 bits of XXH3 (32 hex digits) over the bytes of a chunk.

    It finds damage, not forgery, and takes a small part of the time of sha256, so that writing and
    verifying go as fast as the disk (``benchmarks/chunk_writing.py``).
    """
    return xxhash.xxh3_128_hexdigest(data)


def file_checksum(file: Path, parts: Iterable[tuple[int, int]]) -> str:
    """Return the 128 bits of XXH3 over some parts of a file; of a link, over where it leads."""
    state = xxhash.xxh3_128()
    if file.is_symlink():
        state.update(os.readlink(file).encode("utf-8", "surrogateescape"))
        return state.hexdigest()
    with open(file, "rb") as source:
        for start, stop in parts:
            source.seek(start)
            for at in range(start, stop, _BLOCK):
                state.update(source.read(min(_BLOCK, stop - at)))
    return state.hexdigest()


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
        found = f"checksum {self.found[:12]}" if self.found else "it missing or short"
        return (
            f"array {c.array!r}, row chunk {c.row_chunk}, layer index {c.layer_index} "
            f"({self.file} at byte {self.offset}): expected checksum {c.xxh128[:12]}, found {found}"
        )


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
        for found in pool.map(lambda chunk: _examine(chunk, places[chunk.array]), chunks):
            report(1)
            if found is not None:
                yield found


def read_chunk(chunk: ChunkSum, places: ChunkPlaces) -> bytes:
    """Return the bytes of a chunk.

    Raises:
        EntryError: they differ from their checksum.
    """
    data, found = _found(chunk, places)
    if found is not None:
        raise EntryError(f"{found}. {REMEDY}")
    return data


def _examine(chunk: ChunkSum, places: ChunkPlaces) -> DamagedChunk | None:
    return _found(chunk, places)[1]


def _found(chunk: ChunkSum, places: ChunkPlaces) -> tuple[bytes, DamagedChunk | None]:
    at = chunk.row_chunk, chunk.layer_index
    file, offset = places.files[places.file_index[at]], int(places.offsets[at])
    data = _read(file, offset, chunk.nbytes)
    found = checksum(data) if len(data) == chunk.nbytes else ""
    return data, None if found == chunk.xxh128 else DamagedChunk(chunk, file, offset, found)


def _read(file: str, offset: int, nbytes: int) -> bytes:
    if offset < 0:
        return b""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(descriptor, nbytes, offset)
    finally:
        os.close(descriptor)
