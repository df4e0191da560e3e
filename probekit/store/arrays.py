"""The arrays of an entry: logical (rows, layers, dim) and plain, as a backend stores them."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np

from probekit.base.registry import choose
from probekit.errors import EntryError, OptionError
from probekit.store.json_types import is_name, list_of, mistyped, text, types_of, whole

FeatureDtype = Literal["float16", "bfloat16", "float32", "int8"]
FEATURE_DTYPES: tuple[str, ...] = get_args(FeatureDtype)

# What a backend stores: HDF5 and Zarr know no bfloat16, so its bits travel as uint16.
_PLAIN_DTYPES = {"float16": "float16", "bfloat16": "uint16", "float32": "float32", "int8": "int8"}

# Beyond what anybody stores, so that a stranger's numbers take neither memory nor overflow.
_MOST_CHUNKS = 2**20
_MOST_BYTES = 2**30  # of a chunk
_MOST_ROWS = 2**36
_WIDEST = 2**20
_CHUNK_BYTES = 4 * 2**20
_MIN_CHUNK_ROWS = 16


@dataclass(frozen=True, slots=True)
class PlainArray:
    """One array as a backend stores it: a NumPy dtype and a regular grid of whole chunks.

    Attributes:
        name: name at the root of the Zarr group or HDF5 file.
        shape: extent per axis; axis 0 rows (or row chunks), axis 1 layers, axis 2 (if any) dim.
        chunks: chunk extent per axis; divides ``shape``.
        dtype: NumPy name; stored little-endian.
    """

    name: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: str

    @property
    def grid(self) -> tuple[int, int]:
        """Number of chunks along rows and along layers (there is one along dim)."""
        return self.shape[0] // self.chunks[0], self.shape[1] // self.chunks[1]

    @property
    def chunk_nbytes(self) -> int:
        """Bytes of one chunk; all are whole, so all have the same size."""
        return math.prod(self.chunks) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, kw_only=True, slots=True)
class ArraySpec:
    """One logical array: ``rows`` slots x chosen layers x ``dim``.

    Attributes:
        name: ``words``, ``tokens``, ``cls``, ...
        rows: row slots, the unused tails of units included; a multiple of ``chunk_rows``.
        layers: the layer number (0 = embeddings) at each position of axis 1, ascending.
        dim: D, the width.
        dtype: how rows are stored.
        chunk_rows: rows of one chunk.
    """

    name: Annotated[str, is_name]
    rows: Annotated[int, whole(1, _MOST_ROWS)]
    layers: Annotated[tuple[int, ...], list_of(whole(0, _WIDEST))]
    dim: Annotated[int, whole(1, _WIDEST)]
    dtype: Annotated[FeatureDtype, text]
    chunk_rows: Annotated[int, whole(1, _MOST_ROWS)]

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            OptionError: a field has a value that no entry can have.
        """
        if wrong := mistyped(asdict(self), types_of(ArraySpec)):
            raise OptionError(
                f"array {self.name!r:.80}: {wrong[0]} cannot be {getattr(self, wrong[0])!r:.80}."
            )
        choose("stored dtype", self.dtype, dict.fromkeys(FEATURE_DTYPES))
        many = self.n_row_chunks * len(self.layers) > _MOST_CHUNKS
        if self.rows % self.chunk_rows or many or self.chunk_rows * self.row_nbytes > _MOST_BYTES:
            raise OptionError(
                f"array {self.name!r}: {self.rows} rows of {len(self.layers)} layers in chunks of "
                f"{self.chunk_rows} cannot be; rows are a multiple of a chunk's, chunks "
                f"{_MOST_CHUNKS:,} at most, each of {_MOST_BYTES:,} bytes at most."
            )
        if not self.layers or list(self.layers) != sorted(set(self.layers)):
            raise OptionError(
                f"array {self.name!r}: layers must be ascending and distinct, "
                f"found {list(self.layers)!r:.80}."
            )

    @property
    def n_row_chunks(self) -> int:
        """Number of chunks along the rows."""
        return self.rows // self.chunk_rows

    @property
    def n_chunks(self) -> int:
        """Number of stored chunks, side arrays included."""
        return sum(math.prod(p.grid) for p in self.plain())

    @property
    def nbytes(self) -> int:
        """Bytes on disk, side arrays included."""
        return sum(math.prod(p.grid) * p.chunk_nbytes for p in self.plain())

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row of one layer as it is stored; an int8 row has a norm beside it."""
        norm = 4 if self.dtype == "int8" else 0
        return self.dim * np.dtype(_PLAIN_DTYPES[self.dtype]).itemsize + norm

    def plain(self) -> tuple[PlainArray, ...]:
        """Return the arrays a backend stores for this one; all share one chunk grid.

        The values come first. ``int8`` has two more: ``<name>_norm`` (rows, layers), the float32
        norm of each row, and ``<name>_scale`` (row chunks, layers, dim), one float32 scale per
        chunk, layer and channel.
        """
        layers, c = len(self.layers), self.chunk_rows
        dtype = _PLAIN_DTYPES[self.dtype]
        values = PlainArray(self.name, (self.rows, layers, self.dim), (c, 1, self.dim), dtype)
        if self.dtype != "int8":
            return (values,)
        norm = PlainArray(f"{self.name}_norm", (self.rows, layers), (c, 1), "float32")
        scale_shape = (self.n_row_chunks, layers, self.dim)
        scale = PlainArray(f"{self.name}_scale", scale_shape, (1, 1, self.dim), "float32")
        return (values, norm, scale)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self) | {"layers": list(self.layers)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "ArraySpec":
        """Build a spec from `to_json`'s form.

        Raises:
            EntryError: a field is missing, unknown or has an impossible value.
        """
        try:
            return cls(**{**fields, "layers": tuple(fields["layers"])})
        except (TypeError, KeyError, OptionError) as error:
            shown = f"{fields!r:.300}"
            raise EntryError(f"cannot read the array description {shown}: {error}") from None


def chunk_rows_for(dim: int, dtype: FeatureDtype, total_rows: int) -> int:
    """Return the rows of one chunk: a power of two near 4 MiB per chunk of one layer.

    Args:
        dim: D, the width.
        dtype: how rows are stored.
        total_rows: rows the array will hold; a small array gets no larger a chunk than it needs.
    """
    row_bytes = dim * np.dtype(_PLAIN_DTYPES[dtype]).itemsize
    wanted = 2 ** round(math.log2(max(_CHUNK_BYTES / row_bytes, 1)))
    needed = 2 ** math.ceil(math.log2(max(total_rows, 1)))
    return max(_MIN_CHUNK_ROWS, min(wanted, needed))
