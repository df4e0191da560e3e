"""The Zarr v3 backend: one file per chunk, holding the chunk's bytes and nothing else.

zarr-python writes the metadata. The chunk files are written here: they are the raw
little-endian values, and a plain write spares the 4 MB copies of the codec pipeline. A chunk
that equals the fill value is written like any other, so that a missing file means damage.
"""

import json
import math
import os
import shutil
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from probekit.errors import EntryError
from probekit.store.arrays import PlainArray
from probekit.store.backends.base import REMEDY, ChunkPlaces, ChunkWriter, check_layout
from probekit.store.files import sync_path
from probekit.store.whole_files import WholeFiles

# "c.0.3.0" rather than "c/0/3/0": one inode per chunk instead of two or three.
_SEPARATOR = "."
_METADATA = "zarr.json"

# What other readers see where a chunk is missing: NaN where there is one.
_FILL = {"float16": math.nan, "float32": math.nan, "uint16": 0x7FC0, "int8": 0}


class ZarrFolder:
    """A Zarr v3 group ``features.zarr`` with uncompressed arrays at its root."""

    name = "zarr"
    filename = "features.zarr"

    def create(self, path: Path, arrays: Sequence[PlainArray]) -> None:
        """Write the metadata of a group with ``arrays``; replaces what a killed run left."""
        import zarr

        fresh = path.with_name(path.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)
            group = zarr.create_group(store=str(fresh), zarr_format=3)
            for array in arrays:
                group.create_array(
                    array.name,
                    shape=array.shape,
                    chunks=array.chunks,
                    dtype=array.dtype,
                    compressors=None,
                    filters=None,
                    fill_value=_FILL[array.dtype],
                    chunk_key_encoding={"name": "default", "separator": _SEPARATOR},
                    dimension_names=("rows", "layers", "dim")[: len(array.shape)],
                    config={"write_empty_chunks": True},
                )
        with suppress(FileNotFoundError):
            shutil.rmtree(path)
        fresh.rename(path)

    def open_writer(self, path: Path, arrays: Sequence[PlainArray]) -> ChunkWriter:
        """Return a writer of chunk files."""
        return _ZarrWriter(path)

    def places(self, path: Path, array: PlainArray) -> ChunkPlaces:
        """Return the chunk files, after comparing the array's metadata with ``array``."""
        check_layout(path, array, _read_layout(path / array.name / _METADATA))
        rows, layers = array.grid
        folder = f"{path / array.name}{os.sep}"
        files = tuple(
            folder + _chunk_key(array, row_chunk, layer)
            for row_chunk in range(rows)
            for layer in range(layers)
        )
        file_index = np.arange(rows * layers, dtype=np.int64).reshape(rows, layers)
        return ChunkPlaces(array, files, file_index, np.zeros((rows, layers), dtype=np.int64))


class _ZarrWriter:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = WholeFiles()

    def write(self, array: PlainArray, row_chunk: int, layer_index: int, data: np.ndarray) -> None:
        file = self._path / array.name / _chunk_key(array, row_chunk, layer_index)
        self._files.write(file, data.data)

    def sync(self) -> None:
        for folder, _, files in os.walk(self._path):
            if _METADATA in files:  # chunks are on the disk already, but for their names
                sync_path(Path(folder, _METADATA))
            sync_path(Path(folder))

    def close(self) -> None:
        pass


def _chunk_key(array: PlainArray, row_chunk: int, layer_index: int) -> str:
    return _SEPARATOR.join(["c", *map(str, array.chunk_index(row_chunk, layer_index))])


def _read_layout(file: Path) -> dict[str, object]:
    try:
        metadata: dict[str, Any] = json.loads(file.read_text())
        separator = metadata["chunk_key_encoding"]["configuration"]["separator"]
        codecs = metadata["codecs"]
        raw = len(codecs) == 1 and codecs[0]["name"] == "bytes" and separator == _SEPARATOR
        if raw and metadata["data_type"] != "int8":
            raw = codecs[0]["configuration"]["endian"] == "little"
        return {
            "shape": tuple(metadata["shape"]),
            "chunks": tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"]),
            "dtype": metadata["data_type"],
            "codecs": "uncompressed" if raw else f"{codecs}, chunk keys split by {separator!r}",
        }
    except FileNotFoundError:
        raise EntryError(f"{file} is missing: the entry is damaged. {REMEDY}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise EntryError(f"{file} is not Zarr v3 array metadata ({error!r}). {REMEDY}") from None
