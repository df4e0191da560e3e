"""The HDF5 backend: one file, allocated once and closed; units are written at chunk offsets.

HDF5 has one writer and a file killed before ``flush`` does not open. So h5py only creates the
file (chunked layout, early allocation, no fill) and closes it; after that its structure never
changes, and chunks are written at their byte offsets. A file killed at any
moment opens, and two files with the same chunks are the same byte for byte.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np

from probekit.errors import EntryError
from probekit.store.backends.contract import REMEDY, ChunkPlaces, ChunkWriter, check_layout
from probekit.store.layout import PlainArray, dimension_names

_DIMENSION = "This is a netCDF dimension but not a netCDF variable."
"""What netCDF calls a data set that only names a dimension; its length follows."""


class Hdf5File:
    """An HDF5 file ``features.h5`` with uncompressed chunked data sets at its root."""

    name = "hdf5"
    filename = "features.h5"
    inside = ""

    def n_maps(self, array: PlainArray) -> int:
        """Return 1: the file."""
        return 1

    def create(self, path: Path, arrays: Sequence[PlainArray]) -> None:
        """Allocate every chunk of ``arrays`` and close the file; replaces what was there."""
        import h5py

        dimensions = dimension_names(arrays)
        fresh = path.with_name(path.name + ".new")
        with h5py.File(fresh, "w", libver="v110", locking=False) as file:
            for array in arrays:
                layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                layout.set_chunk(array.chunks)
                layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
                layout.set_obj_track_times(False)
                kind = h5py.h5t.py_create(np.dtype(array.dtype).newbyteorder("<"))
                space = h5py.h5s.create_simple(array.shape)
                h5py.h5d.create(file.id, array.name.encode(), kind, space, dcpl=layout)
                dataset = file[array.name]
                dataset.attrs.update(array.attributes)
                # as netCDF names dimensions: by empty data sets
                named = zip(dimensions[array.name], array.shape, strict=True)
                for axis, (name, length) in enumerate(named):
                    if name not in file:
                        scale = file.create_dataset(name, (length,), "<f4", track_times=False)
                        scale.make_scale(f"{_DIMENSION}{length:10d}")
                    dataset.dims[axis].attach_scale(file[name])
        fresh.replace(path)

    def open_writer(self, path: Path, arrays: Sequence[PlainArray]) -> ChunkWriter:
        """Return a writer at the chunk offsets of ``arrays``."""
        return ChunkWriter(path, [self.places(path, array).check() for array in arrays])

    def places(
        self, path: Path, array: PlainArray, source: BufferedIOBase | None = None
    ) -> ChunkPlaces:
        """Return the chunk offsets, after comparing the data set's layout with ``array``.

        ``source`` is the file's content, where that lies elsewhere.
        """
        file_index, offsets = np.zeros(array.grid, np.int64), _read_offsets(path, array, source)
        return ChunkPlaces(array, (str(path),), file_index, offsets, tail=None)


def _read_offsets(path: Path, array: PlainArray, source: BufferedIOBase | None) -> np.ndarray:
    import h5py

    offsets = np.full(array.grid, -1, dtype=np.int64)
    try:
        # A stream, as HDF5 opens a path only once in a process unless both ask for the same lock.
        stream = nullcontext(source) if source else path.open("rb")
        with stream as content, h5py.File(content, "r") as file:
            dataset = file.get(array.name)
            if not isinstance(dataset, h5py.Dataset):
                raise EntryError(f"{path} has no array {array.name!r}. {REMEDY}")
            check_layout(path, array, _layout(dataset))

            def note(chunk: Any) -> None:
                row_chunk, layer_index = np.floor_divide(chunk.chunk_offset, array.chunks)[:2]
                if chunk.size == array.chunk_nbytes and chunk.byte_offset is not None:
                    offsets[row_chunk, layer_index] = chunk.byte_offset

            dataset.id.chunk_iter(note)
    except FileNotFoundError:
        raise EntryError(f"{path} is missing: the entry is damaged. {REMEDY}") from None
    except EntryError:
        raise
    # h5py's word for a damaged structure depends on where the damage lies
    except (OSError, RuntimeError, ValueError, TypeError, IndexError) as error:
        raise EntryError(f"{path} does not open as HDF5 ({error}). {REMEDY}") from None
    return offsets


def _layout(dataset: Any) -> dict[str, object]:
    filters = dataset.id.get_create_plist().get_nfilters()
    little = dataset.dtype.itemsize == 1 or dataset.dtype == dataset.dtype.newbyteorder("<")
    return {
        "shape": dataset.shape,
        "chunks": dataset.chunks,
        "dtype": dataset.dtype.name,
        "codecs": "uncompressed" if not filters and little else "filters or big-endian values",
    }
