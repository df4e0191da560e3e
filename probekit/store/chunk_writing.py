"""Writing chunks on several threads: encoded ones, and those that another entry has stored."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np

from probekit.base.machine.hardware import usable_cores
from probekit.errors import StorageError
from probekit.store.backends import ChunkPlaces, ChunkWriter
from probekit.store.checksums import ChunkSum, damaged_chunks
from probekit.store.codec import Piece, encode_chunk
from probekit.store.files import checksum

_MOST_ENCODED = 4  # at a time: torch gives each thread helpers of its own
_MOST_COPIED = 16  # at a time, some 4 MiB each: they may come over a network


def write_pieces(writer: ChunkWriter, pieces: Sequence[Piece]) -> tuple[ChunkSum, ...]:
    """Write chunks, and return their checksums in the order of the pieces.

    Encoding, hashing and writing all leave the interpreter to others. When this returns or raises,
    no thread uses the pieces any more.

    Args:
        writer: of the store.
        pieces: what is written.

    Raises:
        StateRangeError: a value is non-finite or too large for the stored dtype.
        OSError: the file system refuses.
    """
    threads = min(_MOST_ENCODED, usable_cores())
    with ThreadPoolExecutor(threads) as pool:

        def write(piece: Piece) -> list[ChunkSum]:
            return _write(writer, piece, encode_chunk(piece))

        return tuple(chain.from_iterable(pool.map(write, pieces)))


def _write(writer: ChunkWriter, piece: Piece, stored: Mapping[str, np.ndarray]) -> list[ChunkSum]:
    """Write one chunk: its values, then what belongs to them."""
    row_chunk, at = piece.row_chunk, piece.layer_index
    sums = []
    for plain in piece.spec.plain():
        data = stored[plain.name]
        writer.write(plain, row_chunk, at, data)
        sums.append(ChunkSum(plain.name, row_chunk, at, data.nbytes, checksum(data.data)))
    return sums


def write_copied_chunks(
    writer: ChunkWriter,
    places: Mapping[str, ChunkPlaces],
    chunks: Iterable[tuple[ChunkSum, Callable[[], bytes]]],
) -> tuple[ChunkSum, ...]:
    """Write chunks as another entry has them stored, read them back, and return their checksums.

    No more of them are in memory than are written at a time.

    Args:
        writer: of the store.
        places: where its chunks lie, by the names of stored arrays.
        chunks: place and checksum of each, and what reads its bytes, on several threads.

    Raises:
        EntryError: one cannot be read, as what reads it says.
        StorageError: what was written reads back otherwise.
        OSError: the file system refuses.
    """

    def put(item: tuple[ChunkSum, Callable[[], bytes]]) -> ChunkSum:
        chunk, read = item
        array = places[chunk.array].array
        values = np.frombuffer(read(), array.dtype).reshape(array.chunks)
        writer.write(array, chunk.row_chunk, chunk.layer_index, values)
        return chunk

    with ThreadPoolExecutor(_MOST_COPIED) as pool:
        written = tuple(pool.map(put, chunks))
    for damage in damaged_chunks(written, places):
        raise StorageError(
            f"{damage}, where it was just written: the disk does not keep what it is given. Choose "
            "another one."
        )
    return written
