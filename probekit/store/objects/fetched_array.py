"""An array whose chunks lie in an object store: fetched when rows of them are asked for.

Chunks are fetched whole, by ranged requests, several at a time, and compared with their checksums
as they come. They go into memory of this process, or into a mirror, whose files are mapped.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from probekit.base.machine.hardware import available_memory
from probekit.errors import EntryError
from probekit.store.arrays import ArraySpec
from probekit.store.backends.contract import REMEDY, ChunkPlaces
from probekit.store.feature_array import FeatureArray
from probekit.store.files import read_span
from probekit.store.mapping import ChunkRoom, MappedArray, most_maps
from probekit.store.marks import checksum
from probekit.store.objects.chunk_window import ChunkWindow, Key
from probekit.store.objects.mirror import Mirror, MirrorFolder

_MOST_MEMORY = 2**30
_SHARE = 1 / 16
"""Bytes of chunks that are kept without a mirror: at most, and of the memory that is free."""

_MAPS_SHARE = 1 / 8
"""Of what a process can map, what one array may take."""

_TRIES = 3
_MAKING = Lock()


@dataclass(frozen=True, eq=False)
class _Live:
    """What a process has of an array, beside what tells where it lies."""

    rooms: list[ChunkRoom]
    copies: MirrorFolder | None
    window: ChunkWindow
    compared: set[Key] = field(default_factory=set)


class FetchedArray(FeatureArray):
    """One array of an entry in an object store."""

    def __init__(
        self,
        spec: ArraySpec,
        places: Sequence[ChunkPlaces],
        sums: "Callable[[], Mapping[tuple[str, int, int], str]]",
        url: str,
        mirror: Mirror | None,
    ) -> None:
        """Keep what is needed to fetch it.

        Args:
            spec: the array.
            places: the chunks of ``spec.plain()``, in that order.
            sums: returns the checksum of every chunk, by array, row chunk and layer position.
            url: of the generation.
            mirror: where chunks are kept; None: in memory.
        """
        super().__init__(spec, places)
        self._sums, self._url, self._mirror = sums, url, mirror
        self._made: _Live | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what tells where it lies: whoever unpickles it fetches anew."""
        return vars(self) | {"_made": None}

    def prefetch(
        self, rows: Int64[np.ndarray, " rows"], layers: Sequence[int] | None = None
    ) -> None:
        """Begin to fetch the chunks of rows, and do not wait; see `FeatureArray.prefetch`."""
        index = self._layer_indices(layers)
        chunks = np.unique(rows // self.spec.chunk_rows).tolist()
        for which in reversed(range(len(self._places))):  # values last: they may fill the room
            self._window.ask(self._keys(which, chunks, index), self._chunk_nbytes(which))
        if self._mirror is not None:
            super().prefetch(rows, layers)

    def _copy(
        self, source: MappedArray, wanted: Tensor | range, index: list[int], target: Tensor
    ) -> None:
        which = self._which(source)
        parts = list(self._parts(which, wanted, len(index)))
        asked = [self._keys(which, chunks, index) for _, _, chunks in parts]
        nbytes = self._chunk_nbytes(which)
        for place, (where, rows, _) in enumerate(parts):
            with self._window.holding(asked[place], nbytes):
                if place + 1 < len(parts):
                    self._window.ask(asked[place + 1], nbytes)
                if isinstance(where, slice):
                    super()._copy(source, rows, index, target[:, where])
                else:
                    part = target.new_empty(len(index), len(where), target.shape[2])
                    super()._copy(source, rows, index, part)
                    target[:, where] = part

    def _copy_scales(
        self, source: MappedArray, index: list[int], chunks: Tensor, target: Tensor
    ) -> None:
        which = self._which(source)
        keys = self._keys(which, chunks.tolist(), index)
        with self._window.holding(keys, self._chunk_nbytes(which)):
            super()._copy_scales(source, index, chunks, target)

    def _parts(
        self, which: int, wanted: Tensor | range, n_layers: int
    ) -> Iterator[tuple[slice | Tensor, Tensor | range, list[int]]]:
        """Cut rows so that the chunks of each part fit the window, as far as they can.

        Yields:
            where the rows of a part are among those that are wanted, these, and their chunks.
        """
        size = self.spec.chunk_rows
        most = max(self._window.most_bytes // (2 * n_layers * self._chunk_nbytes(which) or 1), 1)
        if isinstance(wanted, range):
            start, stop = wanted.start, wanted.stop
            step = most * size
            inner = range(start - start % step + step, stop, step)
            for low, high in pairwise([start, *inner, stop]):
                chunks = list(range(low // size, -(-high // size)))
                yield slice(low - start, high - start), range(low, high), chunks
            return
        chunk = torch.div(wanted, size, rounding_mode="floor")
        chunks = torch.bincount(chunk).nonzero()[:, 0].tolist()
        if len(chunks) <= most:
            yield slice(None), wanted, chunks
            return
        for first in range(0, len(chunks), most):
            some = chunks[first : first + most]
            where = torch.nonzero((chunk >= some[0]) & (chunk <= some[-1]))[:, 0]
            yield where, wanted[where], some

    def _keys(self, which: int, chunks: Sequence[int], index: Sequence[int]) -> list[Key]:
        return [(which, chunk, layer) for chunk in chunks for layer in dict.fromkeys(index)]

    def _chunk_nbytes(self, which: int) -> int:
        return self._places[which].array.chunk_nbytes

    @property
    def _maps(self) -> tuple[MappedArray, ...]:
        return tuple(room.mapped for room in self._live.rooms)

    @property
    def _window(self) -> ChunkWindow:
        return self._live.window

    @property
    def _live(self) -> "_Live":
        """What is made on first use; of several threads, by one."""
        with _MAKING:
            if (live := self._made) is None:
                arrays = [place.array for place in self._places]
                rooms = [ChunkRoom(*both) for both in zip(arrays, self._dtypes, strict=True)]
                copies = None if self._mirror is None else MirrorFolder(self._mirror, self._url)
                free = min(_MOST_MEMORY, int(_SHARE * available_memory()))
                most = free if copies is None else copies.most_bytes // 4
                maps = int(_MAPS_SHARE * most_maps())
                window = ChunkWindow(most, maps, self._bring, self._drop)
                live = self._made = _Live(rooms, copies, window)
        return live

    def _bring(self, key: Key) -> None:
        which, at = key[0], key[1:]
        room, array, copies = self._live.rooms[which], self._places[which].array, self._live.copies
        file = None if copies is None else copies.find(array.name, at, array.chunk_nbytes)
        if file is not None and key not in self._live.compared:
            # a machine that lost power may have lost what was written
            file = file if checksum(_content(file)) == self._sums()[array.name, *at] else None
        self._live.compared.add(key)
        if file is None:
            data = self._fetched(self._places[which], *at)
            if copies is None:
                room.put(at, data)
                return
            file = copies.keep(array.name, at, data)
        try:
            room.map(at, file)
        except EntryError:  # another process made room meanwhile
            room.put(at, self._fetched(self._places[which], *at))

    def _drop(self, key: Key) -> None:
        self._live.rooms[key[0]].drop(key[1:])

    def _fetched(self, places: ChunkPlaces, row_chunk: int, layer_index: int) -> bytes:
        """Ask for a chunk, and compare it with its checksum.

        Raises:
            EntryError: it is another one, however often it is asked for.
            StorageError: the object store does not answer.
        """
        array, at = places.array, (row_chunk, layer_index)
        file, offset = places.files[places.file_index[at]], int(places.offsets[at])
        told = self._sums()[array.name, row_chunk, layer_index]
        for _ in range(_TRIES):
            data = read_span(file, offset, array.chunk_nbytes)
            if len(data) == array.chunk_nbytes and checksum(data) == told:
                return data
        found = "is another one than was written" if data else "is missing"
        raise EntryError(
            f"array {array.name!r}: chunk (row chunk {row_chunk}, layer index {layer_index}) "
            f"{found} ({file} at byte {offset}). Where the entry was replaced or removed "
            f"meanwhile, run the same command again. Otherwise: {REMEDY}"
        )


def _content(file: Path) -> bytes:
    """Return a chunk of a mirror; nothing where it is gone."""
    with suppress(FileNotFoundError):
        return file.read_bytes()
    return b""
