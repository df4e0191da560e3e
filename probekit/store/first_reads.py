"""Chunks are compared with their checksums when a process first reads rows of them."""

import ctypes
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probekit.base.fingerprint import canonical_json, compares
from probekit.base.notices import warn_once
from probekit.errors import EntryError
from probekit.store.backends.contract import REMEDY, ChunkPlaces
from probekit.store.checksums import ChunkSums, DamagedChunk
from probekit.store.mapping import MappedArray
from probekit.store.marks import ChunkSum, checksum

logger = logging.getLogger(__name__)

_FREE_BYTES = 4 * 2**30
_PER_BYTE = 8
"""Most bytes that a process compares: 4 GiB, or 8 for each byte that it reads if that is more.

A chunk is compared whole. Where a few rows of each of very many chunks are read, all of them would
be hundreds of times what is read.
"""


@dataclass(eq=False)
class ReadBytes:
    """How many bytes this process read of caches, and how many it compared."""

    read: int = 0
    compared: int = 0

    def left(self) -> int:
        """Return how many more may be compared."""
        return max(_FREE_BYTES, _PER_BYTE * self.read) - self.compared


_BYTES = ReadBytes()


@dataclass(eq=False)
class FirstReads:
    """What this process has compared of the chunks of an entry.

    Attributes:
        sums: the checksums on record.
    """

    sums: ChunkSums
    _compared: dict[str, np.ndarray] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process begins with: it has compared nothing."""
        return first_reads, (ChunkSums(self.sums.path, self.sums.manifest),)

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
        _BYTES.read += n_rows * len(layers) * array.chunk_nbytes // array.chunks[0]
        touched = torch.bincount(chunks).nonzero()[:, 0].tolist()
        todo = [at for at in product(touched, layers) if not done[at]]
        most = max(_BYTES.left() // array.chunk_nbytes, 0)
        if len(todo) > most:
            warn_once(
                logger,
                "%s: few rows are read of each of many chunks, so not all of these are compared "
                "with their checksums. `probekit cache verify` compares them.",
                self.sums.path,
            )
        for at in todo[:most]:
            self._compare(places, source, at)
            done[at] = True

    def _compare(self, places: ChunkPlaces, source: MappedArray, at: tuple[int, int]) -> None:
        array, told = places.array, self.sums()[places.array.name, *at]
        elements, start = source.elements, int(source.starts[at[::-1]])
        address = elements.data_ptr() + start * elements.element_size()
        found = checksum((ctypes.c_uint8 * array.chunk_nbytes).from_address(address))
        _BYTES.compared += array.chunk_nbytes
        if found != told:
            chunk = ChunkSum(array.name, *at, array.chunk_nbytes, told)
            file, offset = places.files[places.file_index[at]], int(places.offsets[at])
            raise EntryError(f"{DamagedChunk(chunk, file, offset, found)}. {REMEDY}")


_ENTRIES: dict[tuple[Path, str], FirstReads] = {}


def first_reads(sums: ChunkSums) -> FirstReads:
    """Return what this process has compared of an entry, however often it is opened.

    Args:
        sums: its checksums.
    """
    key = sums.path, canonical_json(sums.manifest.files)
    return _ENTRIES.setdefault(key, FirstReads(sums))
