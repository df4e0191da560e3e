"""Write the chunks of one unit, several at a time, and tell their checksums."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np

from probekit.base.machine.hardware import usable_cores
from probekit.errors import StorageError
from probekit.store.backends import ChunkPlaces, ChunkWriter
from probekit.store.checksums import damaged_chunks
from probekit.store.codec import Piece, encode_chunk
from probekit.store.marks import ChunkSum, checksum

_MOST_THREADS = 4  # torch gives each of them helpers of its own


def write_pieces(writer: ChunkWriter, pieces: Sequence[Piece]) -> tuple[ChunkSum, ...]:
    """Write chunks, and return their checksums in the order of the pieces.

    Encoding, hashing and writing all leave the interpreter to others. When this returns or raises,
    no thread uses the pieces any more.

    Raises:
        StateRangeError: a value is non-finite or too large for the stored dtype.
        OSError: the file system refuses.
    """
    with _threads() as pool:
        return tuple(chain.from_iterable(pool.map(lambda piece: _write(writer, piece), pieces)))


def _write(writer: ChunkWriter, piece: Piece) -> list[ChunkSum]:
    """Write one chunk: its values, then what belongs to them."""
    row_chunk, at = piece.row_chunk, piece.layer_index
    stored = encode_chunk(piece)
    sums = []
    for plain in piece.spec.plain():
        data = stored[plain.name]
        writer.write(plain, row_chunk, at, data)
        sums.append(ChunkSum(plain.name, row_chunk, at, data.nbytes, checksum(data.data)))
    return sums


def write_copied_chunks(
    writer: ChunkWriter,
    places: Mapping[str, ChunkPlaces],
    chunks: Iterable[tuple[ChunkSum, bytes]],
) -> tuple[ChunkSum, ...]:
    """Write chunks as another entry has them stored, read them back, and return their checksums.

    Args:
        writer: of the store.
        places: where its chunks lie, by the names of stored arrays.
        chunks: place, checksum and bytes of each.

    Raises:
        StorageError: what was written reads back otherwise.
        OSError: the file system refuses.
    """

    def put(item: tuple[ChunkSum, bytes]) -> ChunkSum:
        chunk, data = item
        array = places[chunk.array].array
        values = np.frombuffer(data, array.dtype).reshape(array.chunks)
        writer.write(array, chunk.row_chunk, chunk.layer_index, values)
        return chunk

    with _threads() as pool:
        written = tuple(pool.map(put, chunks))
    for damage in damaged_chunks(written, places):
        raise StorageError(
            f"{damage}, where it was just written: the disk does not keep what it is given. Choose "
            "another one."
        )
    return written


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(_MOST_THREADS, usable_cores()))
