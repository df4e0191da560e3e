"""Rows on their way from the cache to the heads: held in memory if they fit, else streamed.

Everything here is layer-major: (layers, rows, D), one contiguous block per layer, so that a head
that reads one layer touches one block and a weighted sum over layers is one product.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.numbers.ragged import block_bounds
from probekit.features import FeatureView
from probekit.store import StoredRows

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
        resident: the rows in memory, or None when they stay on disk.
    """

    def __init__(
        self,
        view: FeatureView,
        layers: Sequence[int],
        *,
        device: torch.device,
        resident: bool,
        decoded: bool = False,
    ) -> None:
        """Choose rows and layers; load them when ``resident``.

        They are held as they are stored, or ``decoded``: int8 as float32, on the host alone.
        """
        self.view = view
        self.layers = tuple(layers)
        self.device = device
        self.resident: StoredRows | None = None
        if resident and decoded:
            rows = view.array.read(view.rows, self.layers)
            self.resident = StoredRows(rows.permute(1, 0, 2))
        elif resident:
            on_host = device.type == "cpu"
            self.resident = self.read(np.arange(len(view))) if on_host else self.copied()

    def read(self, places: Int64[np.ndarray, " rows"]) -> StoredRows:
        """Read rows of the view from the cache, as stored."""
        return self.view.array.read_stored(self.view.rows[places], self.layers)

    def prefetch(self, places: Int64[np.ndarray, " rows"]) -> None:
        """Ask for rows of the view that are read next."""
        self.view.array.prefetch(self.view.rows[places], self.layers)

    def copied(self) -> StoredRows:
        """Return all rows on the device, of which the host never holds more than a part."""
        n_rows, part = len(self.view), max(_PART // (len(self.layers) * row_bytes(self.view)), 1)
        out = self.read(np.arange(0)).room(n_rows, self.device)
        for start in range(0, n_rows, part):
            stop = min(start + part, n_rows)
            out = out.put(start, self.read(np.arange(start, stop)))
        return out

    def blocks(self) -> Iterator[tuple[slice, Float[Tensor, "layers rows dim"]]]:
        """Yield all rows in order, in blocks of whole examples, in float32.

        The blocks are a function of the view alone: a block's size may decide the last bits of a
        product, and nothing that a group of runs shares may change a run's result.
        """
        bounds = block_bounds(self.view.offsets, block_rows(self.view))
        after = [*bounds[2:], bounds[-1]]
        asked = 0
        for start, stop, next_stop in zip(bounds, bounds[1:], after, strict=False):
            if self.resident is not None:
                block = self.resident.block(start, stop)
            else:
                self.prefetch(np.arange(asked, next_stop))  # a block ahead
                asked = next_stop
                block = self.read(np.arange(start, stop)).to(self.device).float32()
            yield slice(start, stop), block


def row_bytes(view: FeatureView) -> int:
    """Return the bytes of one row of one layer in memory."""
    return view.array.spec.row_nbytes


def block_rows(view: FeatureView) -> int:
    """Return the rows of a scoring block, whichever of the stored layers are read."""
    array = view.array
    fitting = _BLOCK_BYTES // (array.dim * len(array.layers) * torch.float32.itemsize)
    return max(min(_BLOCK_VALUES // array.dim, fitting), _LEAST_BLOCK)
