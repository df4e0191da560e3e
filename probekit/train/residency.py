"""Which rows of a group are held in memory: the ones read most often, as far as memory goes."""

from collections.abc import Sequence

import torch

from probekit.base.machine.hardware import free_memory
from probekit.features import FeatureView
from probekit.probe.heads.contract import Reads
from probekit.train.source import Source
from probekit.train.stream import StreamSpec, union
from probekit.train.token_rows import TokenLayout

_LEAST_READ_AHEAD, _MOST_READ_AHEAD = 32 * 2**20, 128 * 2**20
"""Bytes of rows read ahead, of all sources at least and of one at most: enough for the disk to have
work; more would take memory from heads."""

_SHARE = 0.5
_DECODED_SHARE = 0.5
"""Share of what is left that rows may take decoded: the next ones need room too."""


# 10 GB, a CPU; 13 layers of 768 channels, stored as int8 (772 bytes a row and layer with its norm,
# 3,072 decoded). Views in the order in which they ask:
#
#   dev, 10,000 rows       stored 0.10 GB, decoded 0.40 GB, which is at most half of 10 GB:
#                          held decoded, 9.60 GB left
#   train, 100,000 rows    stored 1.01 GB, decoded 3.99 GB, at most half of 9.60 GB:
#                          held decoded, 5.61 GB left
#   train of other rows,   decoded 3.99 GB is more than half of 5.61 GB: held as stored,
#   as many                4.60 GB left
#   a fourth, 500,000      stored 5.03 GB is more than 4.60 GB: read from the disk, each time
#
# float16 rows are held as they are stored, 1,536 bytes a row and layer, or not at all.
class Residency:
    """Hands out rows of views, in memory while there is room, and the same rows only once.

    int8 rows are held decoded where that leaves room for others, on a CPU; else as they are stored;
    else they stay on disk.

    Attributes:
        device: where the rows are wanted.
        left: bytes that are still free.
    """

    def __init__(self, memory: int | None, device: torch.device) -> None:
        """Start with ``memory`` bytes; ``None`` is half of what the machine has free now."""
        self.device = device
        self.left = default_memory(device) if memory is None else memory
        self._known: dict[tuple[int, Reads, tuple[int, ...]], Source] = {}

    def source(
        self, view: FeatureView, reads: Reads, layers: tuple[int, ...], *, once: bool = False
    ) -> Source:
        """Return what heads read of a view; loads it if it fits.

        Args:
            view: the rows that are predicted.
            reads: the rows themselves, or the subwords that they are made of.
            layers: layers that some head reads.
            once: it is read once, so straight from the cache.
        """
        key = (id(view), reads, layers)
        if key in self._known:
            return self._known[key]
        layout = TokenLayout(view) if reads == "tokens" else None
        read = view if layout is None else layout.view
        stored, decoded = resident_bytes(read, len(layers))
        decode = self.device.type == "cpu" and stored < decoded <= _DECODED_SHARE * self.left
        size = decoded if decode else stored
        fits = size <= self.left and not once
        self.left -= size if fits else 0
        self._known[key] = Source(
            view, layers, device=self.device, resident=fits, decoded=decode, layout=layout
        )
        return self._known[key]

    def sources(
        self, view: FeatureView, specs: Sequence[StreamSpec], *, once: bool = False
    ) -> dict[Reads, Source]:
        """Return what the members of some streams read of a view, by kind."""
        return {
            reads: self.source(view, reads, layers, once=once)
            for reads, layers in union(specs).items()
        }

    def share(
        self, dev: FeatureView, specs: Sequence[StreamSpec]
    ) -> tuple[dict[Reads, Source], list[dict[Reads, Source]]]:
        """Return what is read of dev, and what each stream reads; those over one view share it.

        Memory goes to the view that is read most often first: dev once per evaluation, the rows of
        train once per epoch and stream.
        """
        # Dev is scored five times, and two streams read one view of train for 3 epochs each: train
        # is read six times and gets memory first. A third stream over a view of its own, for 4
        # epochs, comes after dev.
        times = {id(dev): max((len(spec.points) for spec in specs), default=0)}
        for spec in specs:
            times[id(spec.train)] = times.get(id(spec.train), 0) + spec.epochs
        readers = {id(dev): (dev, list(specs))}
        for spec in specs:
            if spec.train is not dev:
                readers.setdefault(id(spec.train), (spec.train, []))[1].append(spec)
        shared = {
            view: self.sources(*readers[view])
            for view in sorted(readers, key=lambda view: -times[view])
        }
        trained = [
            {reads: shared[id(spec.train)][reads] for reads in union([spec])} for spec in specs
        ]
        return shared[id(dev)], trained

    def read_ahead(self, n_sources: int) -> int:
        """Return the bytes that the rows read ahead of each of some sources may take."""
        return min(max(self.left, _LEAST_READ_AHEAD) // max(n_sources, 1), _MOST_READ_AHEAD)


def resident_bytes(view: FeatureView, n_layers: int) -> tuple[int, int]:
    """Return the bytes that the rows of a view take in memory: as they are stored, and decoded.

    int8 is decoded as float32, which a CPU gathers faster: ``benchmarks/int8_rows.py``.
    """
    decoded = len(view) * n_layers * view.array.dim * view.array.dtype.itemsize
    return view.array.stored_nbytes(view.rows, n_layers), decoded


def default_memory(device: torch.device) -> int:
    """Return the bytes that training takes of a device unless told otherwise: half of the free."""
    return int(_SHARE * free_memory(device))
