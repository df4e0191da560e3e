"""The codec: hidden states to stored chunks and back, written on several threads.

float16 and float32 are plain casts; bfloat16 is its bits in uint16; int8 divides each row by its
own float32 norm, then uses one scale per (chunk, layer, channel), so that an outlier row costs
the others nothing and a massive channel costs the other channels nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64, Shaped
from torch import Tensor

from probekit.base.machine import usable_cores
from probekit.errors import StateRangeError, StorageError
from probekit.store.backends import ChunkWriter
from probekit.store.checksums import ChunkSum, damaged_chunks
from probekit.store.files import checksum
from probekit.store.layout import ArraySpec, FeatureDtype

# A unit of 40 rows and two layers that begins at row 16 of an array in chunks of 16 rows is cut
# into six pieces, layer after layer:
#
#   layer index   0   0   0   1   1   1
#   row chunk     1   2   3   1   2   3
#   rows         16  16   8  16  16   8
#
# Its last chunk of each layer is filled up with eight rows of zeros, rows 56 to 63, which belong to
# no example; the next unit begins at row 64. So no chunk belongs to two units.
#
# int8 rows 3, 17 and 18 of that array come from chunks 0, 1 and 1. In memory they are three rows of
# numbers from -127 to 127, three norms (per layer), ``chunk`` [0, 1, 1] and two rows of scales: row
# 17 is values[1] * scale[chunk[1]] * norm[1]. When rows 40 and 3 are put behind them, from chunks
# 2 and 0, the scales of these, chunk 0's first, go behind those that are there: ``chunk`` is
# [0, 1, 1, 3, 2], and rows 0 and 2 of the scales are the same.

TORCH_DTYPES: dict[str, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "int8": torch.int8,
}
READ_DTYPES = TORCH_DTYPES | {"int8": torch.float32}
"""In which rows are read, by how they are stored."""

_RUN = 16
"""Rows of one chunk, side by side, from which that chunk's scales are not copied for each row."""

_BLOCK = 512
"""Rows of one layer decoded at a time where each has its own scales: they stay in the cache."""

# int8 sums squares in float32: beyond this, the norm of a row of 10,000 channels overflows.
_INT8_LARGEST = 1e17


def fits(dtype: FeatureDtype, max_abs: float) -> bool:
    """Say whether values up to ``max_abs`` can be stored as ``dtype`` (NaN never fits)."""
    if dtype == "int8":
        return max_abs <= _INT8_LARGEST
    return max_abs <= torch.finfo(TORCH_DTYPES[dtype]).max


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


def encode_chunk(piece: Piece) -> dict[str, np.ndarray]:
    """Return the stored form of one chunk of one layer, by plain array name.

    The unused tail of the chunk becomes zeros.

    Raises:
        StateRangeError: a value is non-finite, or too large for the stored dtype.
    """
    spec, block = piece.spec, piece.rows
    if len(block) < spec.chunk_rows:
        block = block.new_zeros(spec.chunk_rows, block.shape[1])
        block[: len(piece.rows)] = piece.rows
    stored: tuple[Tensor, ...]
    if spec.dtype == "int8":
        stored = _encode_int8(block)
    else:
        stored = (block.to(TORCH_DTYPES[spec.dtype]).contiguous(),)
    # Of int8, the norms tell: a non-finite value makes its row's norm non-finite.
    low, high = torch.aminmax(stored[1 if spec.dtype == "int8" else 0])
    if not (torch.isfinite(low) and torch.isfinite(high)):
        bad = int((~torch.isfinite(block)).sum())
        problem = f"values up to {float(block.abs().max()):.6g}"
        remedy = "rerun with --dtype bfloat16"
        if bad:
            problem = f"{bad} non-finite values"
            remedy = "the model computes them: try --compute-dtype float32"
        raise StateRangeError(
            f"array {spec.name!r}, layer {spec.layers[piece.layer_index]}, row chunk "
            f"{piece.row_chunk}: expected values that fit {spec.dtype}, found {problem}; {remedy}."
        )
    if spec.dtype == "bfloat16":  # which NumPy does not know
        stored = (stored[0].view(torch.uint16),)
    pairs = zip(spec.plain(), stored, strict=True)
    return {plain.name: tensor.numpy().reshape(plain.chunks) for plain, tensor in pairs}


def _encode_int8(block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows = block.to(torch.float32)
    norm = torch.linalg.vector_norm(rows, dim=1)
    directions = rows / torch.where(norm > 0, norm, 1.0)[:, None]
    scale = directions.abs().amax(dim=0) / 127
    levels = (directions / torch.where(scale > 0, scale, 1.0)).round_().clamp_(-127, 127)
    return levels.to(torch.int8), norm, scale


def decode_chunk(spec: ArraySpec, stored: Mapping[str, bytes]) -> Float[Tensor, "rows dim"]:
    """Return the rows of one chunk of one layer, in the dtype in which rows are read.

    Args:
        spec: the array.
        stored: the bytes of the chunk, by plain array name.
    """
    dtypes = (TORCH_DTYPES[spec.dtype], torch.float32, torch.float32)
    values, *sides = (
        torch.frombuffer(bytearray(stored[plain.name]), dtype=dtype)
        for plain, dtype in zip(spec.plain(), dtypes, strict=False)
    )
    rows = values.view(spec.chunk_rows, spec.dim)
    if not sides:
        return rows
    norm, scale = sides
    chunk = torch.zeros(spec.chunk_rows, dtype=torch.int64)
    scales = Int8Scales(norm[None], chunk, scale[None, None])
    return StoredRows(rows[None], scales).float32()[0]


@dataclass(frozen=True, eq=False)
class Int8Scales:
    """What int8 rows are multiplied with.

    Attributes:
        norm: the norm of each row.
        chunk: place in ``scale`` of the chunk that each row comes from.
        scale: the scales of the chunks that rows come from.
    """

    norm: Float32[Tensor, "layers rows"]
    chunk: Int64[Tensor, " rows"]
    scale: Float32[Tensor, "layers chunks dim"]


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Some rows of some layers, as they are stored.

    Attributes:
        values: the rows, layers first; of int8 whole numbers from -127 to 127.
        scales: what int8 rows are multiplied with; ``None`` where rows need nothing of the kind,
            being of another dtype, or int8 that is decoded already.
    """

    values: Shaped[Tensor, "layers rows dim"]
    scales: Int8Scales | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.values.shape[1]

    def to(self, device: torch.device) -> "StoredRows":
        """Return the rows on a device."""
        values, scales = self.values.to(device), self.scales
        if scales is not None:
            moved = (tensor.to(device) for tensor in (scales.norm, scales.chunk, scales.scale))
            scales = Int8Scales(*moved)
        return StoredRows(values, scales)

    def room(self, n_rows: int, device: torch.device) -> "StoredRows":
        """Return uninitialised room for rows of this array and these layers on a device."""

        def empty(tensor: Tensor, axis: int) -> Tensor:
            shape = [*tensor.shape[:axis], n_rows, *tensor.shape[axis + 1 :]]
            return torch.empty(shape, dtype=tensor.dtype, device=device)

        values = empty(self.values, 1)
        if self.scales is None:
            return StoredRows(values)
        norm, chunk = empty(self.scales.norm, 1), empty(self.scales.chunk, 0)
        scale = self.scales.scale[:, :0].to(device)
        return StoredRows(values, Int8Scales(norm, chunk, scale))

    def put(self, start: int, rows: "StoredRows") -> "StoredRows":
        """Return this with rows of the same array and layers at ``start`` and the places after it.

        This one's memory is written to.
        """
        stop = start + len(rows)
        self.values[:, start:stop].copy_(rows.values)
        if self.scales is None or rows.scales is None:
            return self
        norm, chunk, scale = self.scales.norm, self.scales.chunk, self.scales.scale
        norm[:, start:stop].copy_(rows.scales.norm)
        chunk[start:stop].copy_(rows.scales.chunk + scale.shape[1])
        more = rows.scales.scale.to(scale.device)
        return replace(self, scales=Int8Scales(norm, chunk, torch.cat([scale, more], dim=1)))

    def gather(self, places: Int64[Tensor, " some"]) -> Float32[Tensor, "layers some dim"]:
        """Return the rows at some places in float32.

        Layer by layer: one ``index_select`` along axis 1 of the whole block takes four times as
        long on a CPU; on a GPU a call costs more than its work.
        """
        if self.values.is_cuda:
            return self._picked(self.values.index_select(1, places), places).float32()
        layers, _, dim = self.values.shape
        shape = (layers, len(places), dim)
        if self.scales is not None:
            levels = torch.empty(shape, dtype=self.values.dtype)
            for into, layer in zip(levels, self.values, strict=True):
                torch.index_select(layer, 0, places, out=into)
            return self._picked(levels, places).float32()
        out = torch.empty(shape)
        for into, layer in zip(out, self.values, strict=True):
            into.copy_(layer.index_select(0, places))
        return out

    def block(self, start: int, stop: int) -> Float32[Tensor, "layers some dim"]:
        """Return a copy of consecutive rows in float32."""
        run = slice(start, stop)
        scales = self.scales
        if scales is not None:
            scales = replace(scales, norm=scales.norm[:, run], chunk=scales.chunk[run])
        return StoredRows(self.values[:, run], scales).float32()

    def float32(self) -> Float32[Tensor, "layers rows dim"]:
        """Return a copy of all rows in float32."""
        out = torch.empty(self.values.shape, dtype=torch.float32, device=self.values.device)
        self.decode(out)
        return out

    def decode(self, out: Float[Tensor, "layers rows dim"]) -> None:
        """Write all rows to ``out``, of int8 multiplied with their scales."""
        scales = self.scales
        if scales is None:
            out.copy_(self.values)
        elif self.values.is_cuda:
            each = scales.scale.index_select(1, scales.chunk)
            out.copy_(self.values).mul_(each).mul_(scales.norm[..., None])
        else:
            self._decode_parts(scales, out)

    def _decode_parts(self, scales: Int8Scales, out: Tensor) -> None:
        """Decode rows of one chunk with that chunk's scales, and others a few at a time."""
        chunks, counts = torch.unique_consecutive(scales.chunk, return_counts=True)
        runs = len(self) >= _RUN * len(chunks)
        sizes = counts.tolist() if runs else [_BLOCK] * -(-len(self) // _BLOCK)
        start = 0
        for index, size in enumerate(sizes):
            part = slice(start, start + size)
            for at, table in enumerate(scales.scale):
                scale = table[chunks[index]] if runs else table[scales.chunk[part]]
                # Cast first: a product of int8 and float32 takes twice as long as one of float32.
                decoded = out[at, part].copy_(self.values[at, part])
                decoded.mul_(scale).mul_(scales.norm[at, part, None])
            start += size

    def _picked(self, values: Tensor, places: Tensor) -> "StoredRows":
        """Return the rows at some places, whose values have been picked already."""
        if self.scales is None:
            return StoredRows(values)
        norm = self.scales.norm.index_select(1, places)
        chunk = self.scales.chunk.index_select(0, places)
        return StoredRows(values, replace(self.scales, norm=norm, chunk=chunk))


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
            """Write one chunk: its values, then what belongs to them."""
            stored, at, sums = encode_chunk(piece), (piece.row_chunk, piece.layer_index), []
            for plain in piece.spec.plain():
                data = stored[plain.name]
                writer.write(plain, *at, data)
                sums.append(ChunkSum(plain.name, *at, data.nbytes, checksum(data.data)))
            return sums

        return tuple(chain.from_iterable(pool.map(write, pieces)))


def write_copied_chunks(
    writer: ChunkWriter, chunks: Iterable[tuple[ChunkSum, Callable[[], bytes]]]
) -> tuple[ChunkSum, ...]:
    """Write chunks as another entry has them stored, read them back, and return their checksums.

    No more of them are in memory than are written at a time.

    Args:
        writer: of the store.
        chunks: place and checksum of each, and what reads its bytes, on several threads.

    Raises:
        EntryError: one cannot be read, as what reads it says.
        StorageError: what was written reads back otherwise.
        OSError: the file system refuses.
    """

    def put(item: tuple[ChunkSum, Callable[[], bytes]]) -> ChunkSum:
        chunk, read = item
        array = writer.places[chunk.array].array
        values = np.frombuffer(read(), array.dtype).reshape(array.chunks)
        writer.write(array, chunk.row_chunk, chunk.layer_index, values)
        return chunk

    with ThreadPoolExecutor(_MOST_COPIED) as pool:
        written = tuple(pool.map(put, chunks))
    for damage in damaged_chunks(written, writer.places):
        raise StorageError(
            f"{damage}, just after it was written: the disk loses data. Choose another disk."
        )
    return written
