"""The read side of one array: rows of chosen layers, in any order, through memory maps.

Chunks are compared with their checksums when a process first reads rows of them.
"""

import ctypes
import logging
import mmap
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.fingerprint import compares
from probekit.base.kinds import ARRAYS
from probekit.base.layers import NO_BLOCK, RESID_POST
from probekit.base.notices import warn_once
from probekit.base.tensors import empty_buffer
from probekit.errors import EntryError, OptionError
from probekit.store.backends.contract import REMEDY, ChunkPlaces
from probekit.store.checksums import ChunkAt, ChunkSum, DamagedChunk, read_checksums
from probekit.store.codec import READ_DTYPES, TORCH_DTYPES, Int8Scales, StoredRows
from probekit.store.files import checksum
from probekit.store.layout import MANIFEST, ArraySpec
from probekit.store.manifest import Manifest
from probekit.store.mapping import MappedArray, advise, map_array

logger = logging.getLogger(__name__)

# Eight rows of layers 0, 3 and 6, each of two values, in chunks of four rows (value v of row r of
# the layer at position p is 16 p + 2 r + v; `mapping` says where chunks are mapped):
#
#   read([6, 1], layers=[6, 0])
#     index  = [2, 0]            the positions of layers 6 and 0
#     chunk  = [6, 1] // 4       = [1, 0]
#     local  = [6, 1] - 4 chunk  = [2, 1]    rows inside their chunks
#     flat   = row_starts[index][:, chunk] + local
#            = [[5120 + 2, 2048 + 1],        rows of one table of all that is mapped
#               [3072 + 2,    0 + 1]]
#
# One ``index_select`` of the table at ``flat`` gives layers first, (layers, rows, dim):
# [[[44, 45], [34, 35]], [[12, 13], [2, 3]]]; what is returned is the same memory seen as (rows,
# layers, dim). Rows that follow one another, such as 2 to 6, need no such table: they are two runs,
# rows 2 and 3 of chunk 0 and rows 0 to 2 of chunk 1, and each is copied as it lies.

RowNumbers = Tensor | np.ndarray | Sequence[int] | slice

_BRIDGED_BYTES = 2**14
"""Rows this close to each other are fetched with what lies between them: one request is cheaper."""

_PART_BYTES = 8 * 2**20
"""Bytes of int8 rows that are read as they are stored, and then decoded, at a time."""


_FREE_BYTES = 4 * 2**30
_PER_BYTE = 8
"""Most bytes that a process compares: 4 GiB, or 8 for each byte that it reads if that is more.

A chunk is compared whole. Where a few rows of each of very many chunks are read, all of them would
be hundreds of times what is read.
"""


_BYTES = Counter[str]()
"""How many this process has ``read`` of caches, and how many it has ``compared``."""


@dataclass(eq=False)
class FirstReads:
    """What this process has compared of the chunks of an entry with their checksums.

    Attributes:
        path: the folder it stands in.
        manifest: what it is.
    """

    path: Path
    manifest: Manifest
    _compared: dict[str, np.ndarray] = field(default_factory=dict)
    _lock: ClassVar[Lock] = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process begins with: it has compared nothing."""
        return first_reads, (self.path, self.manifest)

    def compare(
        self,
        places: ChunkPlaces,
        source: MappedArray,
        chunks: Tensor,
        layers: Sequence[int],
        n_rows: int,
    ) -> None:
        """Compare chunks from which rows are to be read, if they were not compared before.

        Args:
            places: where the chunks of a plain array lie.
            source: where they are mapped.
            chunks: numbers of the row chunks that the rows lie in, repeats allowed.
            layers: positions of layers.
            n_rows: how many rows are read.

        Raises:
            EntryError: a chunk is not what was written.
        """
        array = places.array
        done = self._compared.setdefault(array.name, np.zeros(array.grid, dtype=bool))
        if done.all() or not compares():
            return
        _BYTES["read"] += n_rows * len(layers) * array.chunk_nbytes // array.chunks[0]
        touched = torch.bincount(chunks).nonzero()[:, 0].tolist()
        todo = [at for at in product(touched, layers) if not done[at]]
        left = max(_FREE_BYTES, _PER_BYTE * _BYTES["read"]) - _BYTES["compared"]
        most = max(left // array.chunk_nbytes, 0)
        if len(todo) > most:
            warn_once(
                logger,
                "%s: only a few rows of each chunk are read, so not all chunks are compared "
                "with their checksums. `probekit cache verify` compares them all.",
                self.path,
            )
        for at in todo[:most]:
            self._compare(places, source, at)
            done[at] = True

    def _compare(self, places: ChunkPlaces, source: MappedArray, at: tuple[int, int]) -> None:
        array = places.array
        with self._lock:
            expected = self._sums[array.name, *at]
        elements, start = source.elements, int(source.starts[at[::-1]])
        address = elements.data_ptr() + start * elements.element_size()
        advise(address, array.chunk_nbytes, mmap.MADV_WILLNEED)  # else it may come page by page
        actual = checksum((ctypes.c_uint8 * array.chunk_nbytes).from_address(address))
        _BYTES["compared"] += array.chunk_nbytes
        if actual != expected.xxh128:
            file, offset = places.files[places.file_index[at]], int(places.offsets[at])
            raise EntryError(f"{DamagedChunk(expected, file, offset, actual)}. {REMEDY}")

    @cached_property
    def _sums(self) -> dict[ChunkAt, ChunkSum]:
        return read_checksums(self.path, self.manifest)


_ENTRIES: dict[tuple[int, int, int], FirstReads] = {}
"""By the manifest's file: neither a path nor what it says tells an entry from its copy."""


def first_reads(path: Path, manifest: Manifest) -> FirstReads:
    """Return what this process has compared of an entry, however often and by whatever path.

    Args:
        path: the folder it stands in.
        manifest: what it is.
    """
    compared = FirstReads(path.absolute(), manifest)
    with suppress(OSError):  # replaced just now
        file = (path / MANIFEST).stat()
        compared = _ENTRIES.setdefault((file.st_dev, file.st_ino, file.st_mtime_ns), compared)
        compared.path = path.absolute()  # it may have been moved
    return compared


class FeatureArray:
    """One array of an entry, memory-mapped on first use.

    Attributes:
        spec: shape, layers and stored dtype.
        rows: row slots, unused tails included (the example table says which rows are used).
        layers: stored layer numbers, ascending.
        dim: D, the width.
        dtype: the dtype that `read` returns: as stored, and float32 for int8.
    """

    def __init__(
        self, spec: ArraySpec, places: Sequence[ChunkPlaces], first: FirstReads | None = None
    ) -> None:
        """Keep what is needed to map the array.

        Args:
            spec: the array.
            places: the chunks of ``spec.plain()``, in that order.
            first: compares each chunk when it is first read; None: nothing is compared.
        """
        self.spec = spec
        self.rows, self.layers, self.dim = spec.rows, spec.layers, spec.dim
        self.dtype = READ_DTYPES[spec.dtype]
        self._places, self._first = tuple(places), first

    def __repr__(self) -> str:
        """Return name, extent (rows, layers, D) and stored dtype."""
        spec = self.spec
        shape = f"{self.rows} x {len(spec.layers)} x {spec.dim}"
        return f"FeatureArray({spec.name!r}, {shape}, {spec.dtype})"

    def __getstate__(self) -> dict[str, Any]:
        """Return what tells where it lies: whoever unpickles it maps the files anew."""
        return {name: value for name, value in vars(self).items() if name != "_maps"}

    def empty(self, n_rows: int, n_layers: int) -> Float[Tensor, "rows layers dim"]:
        """Return an uninitialised buffer that `read` accepts as ``out``."""
        return empty_buffer((n_layers, n_rows, self.dim), self.dtype).permute(1, 0, 2)

    def read(
        self, rows: RowNumbers, layers: Sequence[int] | None = None, out: Tensor | None = None
    ) -> Float[Tensor, "rows layers dim"]:
        """Return rows of layers, as a copy.

        Args:
            rows: row numbers (n,) as whole numbers of any kind, such as ``view.rows``, in any
                order, repeats allowed; or a slice of step 1. Slices and runs of consecutive rows
                are read fastest.
            layers: layer numbers (not positions) in any order; all stored layers if None.
            out: buffer to fill and return, shape (n, k, dim), of `dtype`, laid out as by `empty`.

        Returns:
            Shape (n, k, dim) in `dtype`. In memory layers come first: ``.permute(1, 0, 2)`` is
            contiguous, which is what products batched over layers want.

        Raises:
            OptionError: a row or layer that is not stored, rows that are no whole numbers, or an
                ``out`` that does not fit.
            EntryError: a chunk, compared when it is first read, is not what was written.
        """
        index = self._layer_indices(layers)
        wanted = self._wanted(rows)
        count = len(wanted)
        result = self.empty(count, len(index)) if out is None else self._checked(out, count, index)
        target = result.permute(1, 0, 2)
        if self.spec.dtype != "int8":
            self._copy(0, wanted, index, target)
            return result
        size = max(_PART_BYTES // ((len(index) or 1) * self.spec.row_nbytes), 1)
        for start in range(0, count, size):
            stop = min(start + size, count)
            self._stored(wanted[start:stop], index).decode(target[:, start:stop])
        return result

    def stored_rows(self, rows: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " rows"]:
        """Return how many stored rows each row is made of: itself alone."""
        return np.ones_like(rows)

    def stored_nbytes(self, rows: Int64[np.ndarray, " rows"], n_layers: int) -> int:
        """Return the bytes that `read_stored` takes for rows and a number of layers."""
        size = len(rows) * n_layers * self.spec.row_nbytes
        if self.spec.dtype != "int8":
            return size
        n_chunks = len(np.unique(rows // self.spec.chunk_rows))
        return size + 8 * len(rows) + 4 * n_layers * n_chunks * self.dim

    def read_stored(self, rows: RowNumbers, layers: Sequence[int] | None = None) -> StoredRows:
        """Return rows of layers as they are stored: int8 takes a quarter of what `read` returns.

        Args:
            rows: as in `read`.
            layers: as in `read`.

        Raises:
            OptionError: a row or layer that is not stored, or rows that are no whole numbers.
            EntryError: as in `read`.
        """
        return self._stored(self._wanted(rows), self._layer_indices(layers))

    def prefetch(
        self, rows: Int64[np.ndarray, " rows"], layers: Sequence[int] | None = None
    ) -> None:
        """Ask the system to bring rows into the page cache, and do not wait.

        It then reads what lies apart side by side. Without it, each first touch of a map waits for
        the disk, which reads as much around it as the system is set to (128 KiB to 8 MiB). From the
        first call on, that is so no more: rows that were not asked for come page by page.

        Args:
            rows: row numbers in any order; ascending ones that lie close to each other are asked
                for at once, with what is between them.
            layers: as in `read`.

        Raises:
            OptionError: a layer that is not stored.
        """
        index, size = self._layer_indices(layers), self.spec.chunk_rows
        most = max(_BRIDGED_BYTES // self.spec.row_nbytes, 1)
        step = np.diff(rows, prepend=rows[:1])
        apart = (step <= 0) | (step > most) | (np.diff(rows // size, prepend=-1) != 0)
        first, last = rows[apart], rows[np.append(apart[1:], True)[: len(rows)]]
        chunk, within = np.divmod(first, size)
        for array, width in zip(self._maps, (self.dim, 1), strict=False):  # scales are few
            starts = array.starts.numpy()[index][:, chunk] + within * width
            array.prefetch(starts.ravel(), np.tile((last - first + 1) * width, len(index)))

    def _stored(self, wanted: Tensor | range, index: list[int]) -> StoredRows:
        """Return rows (checked) of the layers at ``index`` as they are stored."""
        values = empty_buffer((len(index), len(wanted), self.dim), self._maps[0].elements.dtype)
        self._copy(0, wanted, index, values)
        if len(self._maps) == 1:
            return StoredRows(values)
        norm = torch.empty(len(index), len(wanted), 1)
        self._copy(1, wanted, index, norm)
        rows = torch.arange(wanted.start, wanted.stop) if isinstance(wanted, range) else wanted
        numbers = torch.div(rows, self.spec.chunk_rows, rounding_mode="floor")
        chunks, chunk = torch.unique(numbers, return_inverse=True)
        scale = torch.empty(len(index), len(chunks), self.dim)
        self._compare(2, chunks, index, len(chunks))
        _gather_rows(self._maps[2], torch.tensor(index), chunks, torch.zeros_like(chunks), scale)
        return StoredRows(values, Int8Scales(norm[..., 0], chunk, scale))

    def _copy(self, plain: int, wanted: Tensor | range, index: list[int], target: Tensor) -> None:
        """Copy rows of a plain array, by its number, of the layers at ``index``: (k, n, row)."""
        source, size, row = self._maps[plain], self.spec.chunk_rows, target.shape[2]
        if isinstance(wanted, Tensor):
            chunk = torch.div(wanted, size, rounding_mode="floor")
            self._compare(plain, chunk, index, len(chunk))
            _gather_rows(source, torch.tensor(index), chunk, wanted - chunk * size, target)
            return
        start, stop = wanted.start, wanted.stop
        self._compare(plain, torch.arange(start // size, -(-stop // size)), index, stop - start)
        for at, layer in enumerate(index):
            for first in range(start - start % size, stop, size):
                low, high = max(start, first), min(stop, first + size)
                begin = int(source.starts[layer, first // size])
                block = source.elements[begin : begin + size * row].view(size, row)
                target[at, low - start : high - start].copy_(block[low - first : high - first])

    def _compare(self, plain: int, chunks: Tensor, index: list[int], n_rows: int) -> None:
        """Compare the chunks that some rows lie in, where they are read for the first time."""
        if self._first is not None and n_rows:
            self._first.compare(self._places[plain], self._maps[plain], chunks, index, n_rows)

    @cached_property
    def _maps(self) -> tuple[MappedArray, ...]:
        dtypes = (TORCH_DTYPES[self.spec.dtype], torch.float32, torch.float32)
        return tuple(map(map_array, self._places, dtypes))

    def _layer_indices(self, layers: Sequence[int] | None) -> list[int]:
        asked = self.layers if layers is None else layers
        if unknown := [layer for layer in asked if layer not in self.layers]:
            remedy = "Extract again with --layers to add it."
            if unknown == [0] and ARRAYS[self.spec.name].point != RESID_POST:
                remedy = NO_BLOCK
            raise OptionError(
                f"array {self.spec.name!r}: layer {unknown[0]} is not stored; it holds layers "
                f"{list(self.layers)}. {remedy}"
            )
        return [self.layers.index(layer) for layer in asked]

    def _wanted(self, given: RowNumbers) -> Tensor | range:
        """Check row numbers; return them, or the run that they spell out."""
        if isinstance(given, slice):
            return self._run(given)
        numbers = given.cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
        if numbers.ndim == 1 and not len(numbers):
            return range(0)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            mask = numbers.dtype.kind == "b"
            hint = "; np.flatnonzero turns a mask into row numbers" if mask else ""
            raise OptionError(
                f"array {self.spec.name!r}: expected row numbers as a 1-d array of whole numbers, "
                f"such as int64; found {numbers.ndim}-d {numbers.dtype}{hint}."
            )
        rows = torch.from_numpy(np.require(numbers, np.int64, ["C", "W"]))
        low, high = map(int, torch.aminmax(rows))
        if low < 0 or high >= self.rows:
            raise OptionError(
                f"array {self.spec.name!r}: row {low if low < 0 else high} does not exist; "
                f"it has rows 0..{self.rows - 1}."
            )
        first, last = int(rows[0]), int(rows[-1])
        consecutive = last - first == len(rows) - 1 and bool((rows.diff() == 1).all())
        return range(first, last + 1) if consecutive else rows

    def _run(self, given: slice) -> range:
        start = 0 if given.start is None else given.start
        stop = self.rows if given.stop is None else given.stop
        if given.step not in (None, 1) or not 0 <= start <= stop <= self.rows:
            raise OptionError(
                f"array {self.spec.name!r}: cannot read rows {given}; expected a slice of step 1 "
                f"inside 0..{self.rows}."
            )
        return range(start, stop)

    def _checked(self, out: Tensor, count: int, index: list[int]) -> Tensor:
        shape = (count, len(index), self.dim)
        if out.shape != shape or out.dtype != self.dtype:
            raise OptionError(
                f"array {self.spec.name!r}: expected out of shape {shape} and {self.dtype}, "
                f"found {tuple(out.shape)} and {out.dtype}."
            )
        if not out.permute(1, 0, 2).is_contiguous():
            raise OptionError(
                f"array {self.spec.name!r}: out must be laid out layers first in memory; "
                "make it with FeatureArray.empty."
            )
        return out


def _gather_rows(
    source: MappedArray, layers: Tensor, chunk: Tensor, local: Tensor, target: Tensor
) -> None:
    """Copy row ``local[i]`` of chunk ``chunk[i]`` of each layer into target (k, n, row)."""
    row = target.shape[2]
    if source.row_starts is not None:
        flat = source.row_starts[layers].index_select(1, chunk) + local
        table = source.elements.view(-1, row)
        torch.index_select(table, 0, flat.view(-1), out=target.view(-1, row))
        return
    first = source.starts[layers].index_select(1, chunk) + local * row
    for at in range(len(layers)):
        within = first[at][:, None] + torch.arange(row)
        torch.take(source.elements, within, out=target[at])


class DerivedArray(FeatureArray):
    """An array whose rows are made of those of others as they are read, and stored nowhere."""

    def read_stored(self, rows: RowNumbers, layers: Sequence[int] | None = None) -> StoredRows:
        """Return what `read` returns: rows that are stored in int8 are decoded."""
        return StoredRows(self.read(rows, layers).permute(1, 0, 2))
