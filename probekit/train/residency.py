"""Which rows of a group are held in memory: the ones read most often, as far as memory goes."""

from collections.abc import Sequence

import torch

from probekit.features import FeatureView
from probekit.hardware import available_memory
from probekit.train.rows import Rows, row_bytes
from probekit.train.stream import StreamSpec, union

_LEAST_READ_AHEAD = 32 * 2**20
_SHARE = 0.5


class Residency:
    """Hands out rows of views, in memory while there is room, and the same rows only once.

    Attributes:
        device: where the rows are wanted.
        left: bytes that are still free.
    """

    def __init__(self, memory: int | None, device: torch.device) -> None:
        """Start with ``memory`` bytes; ``None`` is half of what the machine has free now."""
        self.device = device
        self.left = int(_SHARE * free_memory(device)) if memory is None else memory
        self._known: dict[tuple[int, tuple[int, ...]], Rows] = {}

    def rows(self, view: FeatureView, layers: tuple[int, ...]) -> Rows:
        """Return the rows of a view; loads them if they fit."""
        key = (id(view), layers)
        if key not in self._known:
            size = resident_bytes(view, len(layers))
            fits = size <= self.left
            self.left -= size if fits else 0
            self._known[key] = Rows(view, layers, device=self.device, resident=fits)
        return self._known[key]

    def once(self, view: FeatureView, layers: tuple[int, ...]) -> Rows:
        """Return the rows of a view that is read once: straight from the cache."""
        return Rows(view, layers, device=self.device, resident=False)

    def streams(self, specs: Sequence[StreamSpec]) -> list[Rows]:
        """Return the rows of each stream; streams over the same view share theirs."""
        layers = {
            id(spec.train): union([other for other in specs if other.train is spec.train])
            for spec in specs
        }
        return [self.rows(spec.train, layers[id(spec.train)]) for spec in specs]

    def read_ahead(self, n_streams: int) -> int:
        """Return the bytes that each of some streams may use for rows read ahead."""
        return max(self.left // max(n_streams, 1), _LEAST_READ_AHEAD)


def resident_bytes(view: FeatureView, n_layers: int) -> int:
    """Return the bytes that the rows of a view take in memory."""
    return len(view) * n_layers * row_bytes(view)


def free_memory(device: torch.device) -> int:
    """Return the bytes that are free on a device now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return available_memory()
