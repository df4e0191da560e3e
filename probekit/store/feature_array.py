"""The read side of one array: rows of chosen layers, in any order, through memory maps."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.buffers import empty_buffer
from probekit.errors import OptionError
from probekit.store.arrays import ArraySpec
from probekit.store.backends.base import ChunkPlaces
from probekit.store.codec import TORCH_DTYPES, decode_int8, read_dtype
from probekit.store.mapping import MappedArray, map_array

# int8 rows of one layer decoded at a time in a gather: the scales of a block stay in the cache.
_GATHER_BLOCK = 512
# int8 rows of one chunk, side by side, from which that chunk's scales are not copied for each row.
_RUN = 16


class FeatureArray:
    """One array of an entry, memory-mapped on first use.

    Attributes:
        spec: shape, layers and stored dtype.
    """

    spec: ArraySpec

    def __init__(self, spec: ArraySpec, places: Sequence[ChunkPlaces]) -> None:
        """Keep what is needed to map the array.

        Args:
            spec: the array.
            places: the chunks of ``spec.plain()``, in that order.
        """
        self.spec = spec
        self._places = tuple(places)
        self._mapped: tuple[MappedArray, ...] | None = None
        self._layer_index = {layer: at for at, layer in enumerate(spec.layers)}

    @property
    def rows(self) -> int:
        """Row slots, unused tails included (the example table says which rows are used)."""
        return self.spec.rows

    @property
    def layers(self) -> tuple[int, ...]:
        """Stored layer numbers, ascending."""
        return self.spec.layers

    @property
    def dim(self) -> int:
        """D, the width."""
        return self.spec.dim

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that `read` returns: as stored, and float32 for int8."""
        return read_dtype(self.spec.dtype)

    def empty(self, n_rows: int, n_layers: int) -> Float[Tensor, "rows layers dim"]:
        """Return an uninitialised buffer that `read` accepts as ``out``."""
        return empty_buffer((n_layers, n_rows, self.dim), self.dtype).permute(1, 0, 2)

    def read(
        self,
        rows: Tensor | slice,
        layers: Sequence[int] | None = None,
        out: Tensor | None = None,
    ) -> Float[Tensor, "rows layers dim"]:
        """Return rows of layers, as a copy.

        Args:
            rows: int64 row numbers (n,) in any order, repeats allowed, or a slice of step 1.
                Slices and runs of consecutive rows are read fastest.
            layers: layer numbers (not positions) in any order; all stored layers if None.
            out: buffer to fill and return, shape (n, k, dim), of `dtype`, laid out as by `empty`.

        Returns:
            Shape (n, k, dim) in `dtype`. In memory layers come first: ``.permute(1, 0, 2)`` is
            contiguous, which is what products batched over layers want.

        Raises:
            OptionError: a row or layer that is not stored, row numbers that are not int64, or an
                ``out`` that does not fit.
        """
        index = self._layer_indices(layers)
        wanted = self._bounds(rows) if isinstance(rows, slice) else self._checked_rows(rows)
        count = wanted.stop - wanted.start if isinstance(wanted, slice) else len(wanted)
        result = self.empty(count, len(index)) if out is None else self._checked(out, count, index)
        target = result.permute(1, 0, 2)
        if isinstance(wanted, slice):
            self._read_run(wanted.start, wanted.stop, index, target)
        else:
            self._gather(wanted, index, target)
        return result

    def _read_run(self, start: int, stop: int, index: list[int], target: Tensor) -> None:
        """Copy rows start..stop of the layers at ``index`` into target (k, n, dim)."""
        size, dim = self.spec.chunk_rows, self.dim
        values, *sides = self._maps()
        for at, layer in enumerate(index):
            for first in range(start - start % size, stop, size):
                low, high = max(start, first), min(stop, first + size)
                inside = slice(low - first, high - first)
                chunk = first // size
                block = values.chunk(chunk, layer, size * dim).view(size, dim)[inside]
                into = target[at, low - start : high - start]
                if sides:
                    norm = sides[0].chunk(chunk, layer, size)[inside]
                    decode_int8(block, norm, sides[1].chunk(chunk, layer, dim), into)
                else:
                    into.copy_(block)

    def _gather(self, rows: Tensor, index: list[int], target: Tensor) -> None:
        """Copy any rows of the layers at ``index`` into target (k, n, dim)."""
        chunk = torch.div(rows, self.spec.chunk_rows, rounding_mode="floor")
        local = rows - chunk * self.spec.chunk_rows
        values, *sides = self._maps()
        layers = torch.tensor(index)
        if not sides:
            _gather_rows(values, layers, chunk, local, target)
            return
        chunks, counts = torch.unique_consecutive(chunk, return_counts=True)
        if len(rows) >= _RUN * len(chunks):
            self._gather_runs(chunks.tolist(), counts.tolist(), local, index, target)
            return
        for first in range(0, len(rows), _GATHER_BLOCK):
            block = slice(first, first + _GATHER_BLOCK)
            where, inside = chunk[block], local[block]
            shape = (len(index), len(where), self.dim)
            levels = torch.empty(shape, dtype=torch.int8)
            _gather_rows(values, layers, where, inside, levels)
            norm = torch.empty(*shape[:2], 1)
            _gather_rows(sides[0], layers, where, inside, norm)
            scale = torch.empty(shape)
            _gather_rows(sides[1], layers, where, torch.zeros_like(inside), scale)
            for at in range(len(index)):
                decode_int8(levels[at], norm[at, :, 0], scale[at], target[at, block])

    def _gather_runs(
        self, chunks: list[int], counts: list[int], local: Tensor, index: list[int], target: Tensor
    ) -> None:
        """Decode int8 rows that lie in few chunks, each chunk with its own scales."""
        size, dim = self.spec.chunk_rows, self.dim
        values, norms, scales = self._maps()
        start = 0
        for chunk, count in zip(chunks, counts, strict=True):
            run = slice(start, start + count)
            for at, layer in enumerate(index):
                block = values.chunk(chunk, layer, size * dim).view(size, dim)
                decode_int8(
                    block.index_select(0, local[run]),
                    norms.chunk(chunk, layer, size).index_select(0, local[run]),
                    scales.chunk(chunk, layer, dim),
                    target[at, run],
                )
            start += count

    def _maps(self) -> tuple[MappedArray, ...]:
        if self._mapped is None:
            dtypes = [TORCH_DTYPES[self.spec.dtype], torch.float32, torch.float32]
            self._mapped = tuple(
                map_array(places, dtype)
                for places, dtype in zip(self._places, dtypes, strict=False)
            )
        return self._mapped

    def _layer_indices(self, layers: Sequence[int] | None) -> list[int]:
        if layers is None:
            return list(range(len(self.layers)))
        unknown = [layer for layer in layers if layer not in self._layer_index]
        if unknown:
            raise OptionError(
                f"array {self.spec.name!r}: layer {unknown[0]} is not stored; it holds layers "
                f"{list(self.layers)}. Extract again with --layers to add it."
            )
        return [self._layer_index[layer] for layer in layers]

    def _bounds(self, run: slice) -> slice:
        start = 0 if run.start is None else run.start
        stop = self.rows if run.stop is None else run.stop
        if run.step not in (None, 1) or not 0 <= start <= stop <= self.rows:
            raise OptionError(
                f"array {self.spec.name!r}: cannot read rows {run}; expected a slice of step 1 "
                f"inside 0..{self.rows}."
            )
        return slice(start, stop)

    def _checked_rows(self, rows: Tensor) -> Tensor | slice:
        """Check row numbers; return them, or the slice that they spell out."""
        if rows.dtype != torch.int64 or rows.dim() != 1:
            raise OptionError(
                f"array {self.spec.name!r}: expected row numbers as a 1-d int64 tensor, found "
                f"{rows.dim()}-d {rows.dtype}."
            )
        if not len(rows):
            return slice(0, 0)
        low, high = map(int, torch.aminmax(rows))
        if low < 0 or high >= self.rows:
            raise OptionError(
                f"array {self.spec.name!r}: row {low if low < 0 else high} does not exist; "
                f"it has rows 0..{self.rows - 1}."
            )
        first, last = int(rows[0]), int(rows[-1])
        consecutive = last - first == len(rows) - 1 and bool((rows.diff() == 1).all())
        return slice(first, last + 1) if consecutive else rows

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
