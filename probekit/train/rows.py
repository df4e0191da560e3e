"""Rows on their way from the cache to the heads: held in memory if they fit, else streamed.

Everything here is layer-major: (layers, rows, D), one contiguous block per layer, so that a head
that reads one layer touches one block and a weighted sum over layers is one product.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from probekit.features import FeatureView

_BLOCK_VALUES = 2**19
"""Most values per layer: 12 layers and what dwatt makes of them then stay in the last-level cache,
which is twice as fast as 2**21 values."""

_BLOCK_BYTES = 24 * 2**20
"""Most bytes of all layers in float32. The C library returns memory of more than 32 MiB to the
system at once, and to get it again page by page costs more than to fill it
(``benchmarks/scoring_blocks.py``)."""

_LEAST_BLOCK = 256
_PART = 256 * 2**20
"""Bytes that are copied to another device at a time."""


class Rows:
    """The rows of one view, some of its layers, in memory or on disk.

    Attributes:
        view: which rows.
        layers: which layers, ascending.
        device: where they are wanted.
        resident: the rows as stored, (layers, rows, D), or None when they stay on disk.
    """

    def __init__(
        self, view: FeatureView, layers: Sequence[int], *, device: torch.device, resident: bool
    ) -> None:
        """Choose rows and layers; load them when ``resident``."""
        self.view = view
        self.layers = tuple(layers)
        self.device = device
        self.resident: Tensor | None = None
        if resident:
            on_host = device.type == "cpu"
            self.resident = self.read(np.arange(len(view))) if on_host else self.copied()

    def read(self, places: Int64[np.ndarray, " rows"]) -> Shaped[Tensor, "layers rows dim"]:
        """Read rows of the view from the cache, as stored (int8 becomes float32)."""
        rows = torch.from_numpy(self.view.rows[places])
        return self.view.array.read(rows, self.layers).permute(1, 0, 2)

    def copied(self) -> Shaped[Tensor, "layers rows dim"]:
        """Return all rows on the device, of which the host never holds more than a part."""
        n_rows, part = len(self.view), max(_PART // (len(self.layers) * row_bytes(self.view)), 1)
        shape = (len(self.layers), n_rows, self.view.array.dim)
        out = torch.empty(shape, dtype=self.view.array.dtype, device=self.device)
        for start in range(0, n_rows, part):
            stop = min(start + part, n_rows)
            out[:, start:stop].copy_(self.read(np.arange(start, stop)))
        return out

    def blocks(self) -> Iterator[tuple[slice, Float[Tensor, "layers rows dim"]]]:
        """Yield all rows in order, in blocks of whole examples, in float32.

        The blocks are a function of the view alone: a block's size may decide the last bits of a
        product, and nothing that a group of runs shares may change a run's result.
        """
        bounds = block_bounds(self.view.offsets, block_rows(self.view))
        for start, stop in itertools.pairwise(bounds):
            if self.resident is not None:
                stored = self.resident[:, start:stop]
            else:
                stored = self.read(np.arange(start, stop)).to(self.device)
            yield (
                slice(start, stop),
                stored.to(torch.float32, memory_format=torch.contiguous_format, copy=True),
            )


def gather(
    block: Shaped[Tensor, "layers all dim"], places: Int64[Tensor, " rows"]
) -> Float[Tensor, "layers rows dim"]:
    """Return some rows of a block in float32.

    Layer by layer: one ``index_select`` along axis 1 of the whole block takes four times as long on
    a CPU; on a GPU a call costs more than its work.
    """
    if block.is_cuda:
        return block.index_select(1, places).float()
    shape = (block.shape[0], len(places), block.shape[2])
    out = torch.empty(shape, dtype=torch.float32, device=block.device)
    for layer, rows in zip(out, block, strict=True):
        layer.copy_(rows.index_select(0, places))
    return out


def row_bytes(view: FeatureView) -> int:
    """Return the bytes of one row of one layer in memory."""
    return int(view.array.dim * view.array.dtype.itemsize)


def block_rows(view: FeatureView) -> int:
    """Return the rows of a scoring block, whichever of the stored layers are read."""
    array = view.array
    fitting = _BLOCK_BYTES // (array.dim * len(array.layers) * torch.float32.itemsize)
    return max(min(_BLOCK_VALUES // array.dim, fitting), _LEAST_BLOCK)


def block_bounds(offsets: Int64[np.ndarray, " bounds"], rows: int) -> list[int]:
    """Cut consecutive examples into runs of at most ``rows`` rows (or one example)."""
    bounds = [0]
    while bounds[-1] < offsets[-1]:
        last = int(np.searchsorted(offsets, bounds[-1] + rows, side="right")) - 1
        if offsets[last] == bounds[-1]:  # one example longer than a block
            last = int(np.searchsorted(offsets, bounds[-1], side="right"))
        bounds.append(int(offsets[last]))
    return bounds
