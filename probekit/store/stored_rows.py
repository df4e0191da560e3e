"""Rows in memory as they are stored, a quarter of float32 where that is int8."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float32, Int64, Shaped
from torch import Tensor

from probekit.store.codec import decode_int8

_RUN = 16
"""Rows of one chunk, side by side, from which that chunk's scales are not copied for each row."""

_BLOCK = 512
"""Rows of one layer decoded at a time where each has its own scales: they stay in the cache."""


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
        values = self.values
        out = torch.empty(values.shape, dtype=torch.float32, device=values.device)
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
        for place, size in enumerate(sizes):
            part = slice(start, start + size)
            for at, table in enumerate(scales.scale):
                scale = table[chunks[place]] if runs else table[scales.chunk[part]]
                decode_int8(self.values[at, part], scales.norm[at, part], scale, out[at, part])
            start += size

    def _picked(self, values: Tensor, places: Tensor) -> "StoredRows":
        """Return the rows at some places, whose values have been picked already."""
        if self.scales is None:
            return StoredRows(values)
        norm = self.scales.norm.index_select(1, places)
        chunk = self.scales.chunk.index_select(0, places)
        return StoredRows(values, replace(self.scales, norm=norm, chunk=chunk))
