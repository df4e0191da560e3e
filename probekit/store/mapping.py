"""Memory maps: every chunk of a plain array in one read-only tensor, without file descriptors.

The chunk files are mapped side by side into one reserved range of addresses. So a gather over
all layers and chunks is a single ``index_select`` instead of one per chunk and layer, and no
descriptor stays open (NumPy, ``mmap`` and h5py keep one per map; a process often has 1024).
The pages are mapped read-only: a stray in-place write stops the process instead of a number.
"""

import ctypes
import math
import mmap
import os
from collections.abc import Iterable
from ctypes import c_int, c_long, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from probekit.errors import EntryError, OptionError, StorageError
from probekit.store.backends.contract import REMEDY, Backend, ChunkPlaces
from probekit.store.layout import ArraySpec

# Eight rows of three layers, two float16 values each, in chunks of four rows: 16 bytes a chunk.
#
# A folder of Zarr has a file per chunk, (row chunk, layer) in the order (0, 0), (0, 1), (0, 2),
# (1, 0), ... A map begins with a page, so the files lie 4,096 bytes apart, 2,048 values:
#   starts     = [[0, 6144], [2048, 8192], [4096, 10240]]   by layer and row chunk, in values
#   row_starts = [[0, 3072], [1024, 4096], [2048,  5120]]   in rows of two
# So row 2 of row chunk 1 of the third layer is row 5120 + 2 of ``elements.view(-1, 2)``.
#
# An HDF5 file has all chunks, the first at byte 2,048, where ``elements`` begins:
#   starts     = [[0, 24], [8, 32], [16, 40]]
#   row_starts = [[0, 12], [4, 16], [ 8, 20]]
# Had another program put the second chunk at byte 2,066, it would begin between two rows of four
# bytes: no view in rows has it whole, ``row_starts`` is None, and values are gathered one by one.
#
# Rows of 768 float32 values, 3,072 bytes, do not fit a page. So files lie whole multiples of
# lcm(4096, 3072) = 12,288 bytes apart, three pages and four rows.

_MAP_FIXED = 0x10  # Linux and macOS; Python's mmap module does not name it
_MAP_LIMIT = Path("/proc/sys/vm/max_map_count")
_FAILED = c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = c_void_p
_libc.mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, c_long]
_libc.madvise.argtypes = [c_void_p, c_size_t, c_int]

_NOWHERE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


@dataclass(frozen=True, slots=True)
class MappedArray:
    """The mapped values of one plain array.

    Attributes:
        elements: all mapped values; never write to it, never hand it out.
        starts: first element of each chunk.
        row_starts: ``starts`` counted in rows of ``elements.view(-1, row)``, or None if some
            chunk does not begin on such a row (an HDF5 file that another program repacked).
    """

    elements: Shaped[Tensor, " elements"]
    starts: Int64[Tensor, "layers row_chunks"]
    row_starts: Int64[Tensor, "layers row_chunks"] | None

    def prefetch(
        self, starts: Int64[np.ndarray, " runs"], lengths: Int64[np.ndarray, " runs"]
    ) -> None:
        """Ask the system for runs of elements, and for nothing around them, without waiting.

        It may take no notice. What is read later and was not asked for comes page by page.
        """
        size, base = self.elements.element_size(), self.elements.data_ptr()
        advise(base, self.elements.nbytes, mmap.MADV_RANDOM)
        spans = (lengths * size).tolist()
        for address, span in zip((base + starts * size).tolist(), spans, strict=True):
            advise(address, span, mmap.MADV_WILLNEED)


def advise(address: int, length: int, advice: int) -> None:
    """Tell the system how the pages of a range are used."""
    within = address % mmap.PAGESIZE
    _libc.madvise(address - within, length + within, advice)


def check_mappable(backend: Backend, arrays: Iterable[ArraySpec]) -> None:
    """Check, before they are computed, that arrays can be read later: a process maps so many files.

    Half of what the system allows is for one entry; the rest is for the libraries of the process,
    and for entries of other splits.

    Raises:
        OptionError: there would be too many files; says what to do.
    """
    try:
        most = int(_MAP_LIMIT.read_text())
    except OSError:  # the system does not say
        return
    needed = sum(backend.n_maps(plain) for spec in arrays for plain in spec.plain())
    if needed > most // 2:
        raise OptionError(
            f"the entry would have {needed:,} files, and one entry may use at most half of the "
            f"{most:,} that a process can map. Extract with --format hdf5 (one file), or raise "
            f"the limit: sysctl -w vm.max_map_count={2 * needed}"
        )


def map_array(places: ChunkPlaces, dtype: torch.dtype) -> MappedArray:
    """Map all chunks of an array: each file at its base inside a reserved range of addresses.

    Args:
        places: where they lie.
        dtype: how to read the bytes; as wide as the stored dtype (bfloat16 for uint16 bits).

    Raises:
        EntryError: a file is missing or shorter than its chunks, or these do not lie whole values
            apart.
        StorageError: the operating system refuses so many maps.
    """
    array = places.array
    row = array.chunks[2] if len(array.chunks) > 2 else 1
    needed = np.zeros(len(places.files), dtype=np.int64)
    np.maximum.at(needed, places.file_index, places.offsets + array.chunk_nbytes)
    # Files start whole rows apart, so that chunks at equal offsets are aligned alike.
    step = math.lcm(mmap.PAGESIZE, row * dtype.itemsize)
    spans = -(-needed // step) * step
    bases = np.cumsum(spans) - spans
    first, size = int(places.offsets.min()), int(spans.sum())
    # Read-only reservations count against no memory limit. Freeing it unmaps the files too.
    reserved = mmap.mmap(-1, size, flags=_NOWHERE, prot=mmap.PROT_READ)
    values = np.frombuffer(reserved, dtype=np.uint8)
    for file, length, base in zip(places.files, needed.tolist(), bases.tolist(), strict=True):
        _map_file(file, length, values.ctypes.data + base)
    # torch warns of read-only buffers; a ctypes array at the address is not known to be one.
    buffer = (ctypes.c_uint8 * size).from_address(values.ctypes.data)
    buffer.owner = values  # type: ignore[attr-defined]
    count = (size - first) // (row * dtype.itemsize) * row  # of whole rows
    elements = torch.frombuffer(buffer, dtype=dtype, count=count, offset=first)
    bytes_at = bases[places.file_index] + places.offsets - first
    if (bytes_at % dtype.itemsize).any():
        raise EntryError(
            f"array {array.name!r}: the chunks in {places.files[0]} do not lie a whole number of "
            f"values apart, because another program has rewritten the file. {REMEDY}"
        )
    starts = torch.from_numpy(np.ascontiguousarray(bytes_at.T) // dtype.itemsize)
    aligned = not (bytes_at % (row * dtype.itemsize)).any()
    return MappedArray(elements, starts, starts // row if aligned else None)


def _map_file(file: str, length: int, address: int) -> None:
    """Map so many bytes of a file into a reserved range."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        raise EntryError(f"chunk file {file} is missing. {REMEDY}") from None
    try:
        size = os.fstat(descriptor).st_size
        if size < length:
            # Reading past the end of a file through a map kills the process (SIGBUS).
            raise EntryError(f"{file} is too short: {size} bytes, expected {length}. {REMEDY}")
        flags = mmap.MAP_PRIVATE | _MAP_FIXED
        mapped = _libc.mmap(address, length, mmap.PROT_READ, flags, descriptor, 0)
    finally:
        os.close(descriptor)
    if mapped is None or mapped == _FAILED:
        reason = os.strerror(ctypes.get_errno())
        raise StorageError(
            f"cannot memory-map {file}: {reason}. The entry has more chunks than the system can "
            "map; raise vm.max_map_count (Linux), or extract with --format hdf5."
        )
