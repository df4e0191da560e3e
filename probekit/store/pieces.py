"""The chunks of a unit: cut from its blocks, encoded, written and hashed by several threads."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

from jaxtyping import Float
from torch import Tensor

from probekit.base.machine.hardware import usable_cores
from probekit.store.arrays import ArraySpec
from probekit.store.backends import ChunkWriter
from probekit.store.checksums import checksum
from probekit.store.codec import encode_chunk
from probekit.store.marks import ChunkSum

_MOST_THREADS = 4  # torch gives each of them helpers of its own


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """The rows of one chunk of one layer, as they were computed.

    Attributes:
        spec: the array.
        row_chunk: number along the rows.
        layer_index: position along the layers.
        rows: up to ``chunk_rows`` rows.
    """

    spec: ArraySpec
    row_chunk: int
    layer_index: int
    rows: Float[Tensor, "rows dim"]


def cut_pieces(
    spec: ArraySpec, row_start: int, block: Float[Tensor, "layers rows dim"]
) -> Iterator[Piece]:
    """Cut a block of an array's rows into chunks, layer after layer.

    Args:
        spec: the array.
        row_start: first row of the block, a multiple of the array's chunk rows.
        block: the rows of all layers of the array.

    Raises:
        ValueError: the block does not fit the array there.
    """
    size = spec.chunk_rows
    layers, rows, dim = block.shape
    first, count = row_start // size, -(-rows // size)
    if (layers, dim) != (len(spec.layers), spec.dim) or row_start % size:
        raise ValueError(f"block {tuple(block.shape)} at row {row_start} does not fit {spec}")
    if first + count > spec.n_row_chunks:
        raise ValueError(f"{rows} rows at row {row_start} do not fit the {spec.rows} of {spec}")
    for at in range(layers):
        for chunk in range(count):
            part = block[at, chunk * size : (chunk + 1) * size]
            yield Piece(spec=spec, row_chunk=first + chunk, layer_index=at, rows=part)


def write_pieces(writer: ChunkWriter, pieces: Sequence[Piece]) -> tuple[ChunkSum, ...]:
    """Write chunks, and return their checksums in the order of the pieces.

    Encoding, hashing and writing all leave the interpreter to others. When this returns or raises,
    no thread uses the pieces any more.

    Raises:
        StateRangeError: a value is non-finite or too large for the stored dtype.
        OSError: the file system refuses.
    """
    with ThreadPoolExecutor(min(_MOST_THREADS, usable_cores())) as pool:
        return tuple(chain.from_iterable(pool.map(lambda piece: _write(writer, piece), pieces)))


def _write(writer: ChunkWriter, piece: Piece) -> list[ChunkSum]:
    """Write one chunk: its values, then what belongs to them."""
    spec, row_chunk, at = piece.spec, piece.row_chunk, piece.layer_index
    stored = encode_chunk(spec, piece.rows, layer=spec.layers[at], row_chunk=row_chunk)
    sums = []
    for plain in spec.plain():
        data = stored[plain.name]
        writer.write(plain, row_chunk, at, data)
        sums.append(ChunkSum(plain.name, row_chunk, at, data.nbytes, checksum(data.data)))
    return sums
