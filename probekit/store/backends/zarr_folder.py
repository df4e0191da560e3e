"""The Zarr v3 backend: files that hold chunks' bytes one after the other, mostly of one chunk.

An array of very many chunks would take more files than a system maps. There the chunks of all
layers over the same rows share one file: a shard, as Zarr calls it, written by the one unit that
has those rows. After the chunks it holds Zarr's index of them, which is the same in every shard.

zarr-python writes the metadata. The chunk files are written here: they are the raw
little-endian values, and a plain write spares the 4 MB copies of the codec pipeline. A chunk
that equals the fill value is written like any other, so that a missing file means damage.
"""

import json
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from probekit.errors import EntryError, reason_of
from probekit.store.backends.contract import REMEDY, ChunkPlaces, ChunkWriter, check_layout
from probekit.store.layout import PlainArray, dimension_names

# "c.0.3.0" rather than "c/0/3/0": one inode per chunk instead of two or three.
_SEPARATOR = "."
_METADATA = "zarr.json"

_MOST_FILES = 1024
"""Files of an array with one for each chunk; one that had more has shards."""

# What other readers see where a chunk is missing: NaN where there is one.
_FILL = {"float16": math.nan, "float32": math.nan, "uint16": 0x7FC0, "int8": 0}


class ZarrFolder:
    """A Zarr v3 group ``features.zarr`` with uncompressed arrays at its root."""

    name = "zarr"
    filename = "features.zarr"
    inside = r"(/[^/]+)?/(zarr\.json|c(\.\d+)+)"

    def n_maps(self, array: PlainArray) -> int:
        """Return the number of chunk files, or of shards."""
        rows, layers = array.grid
        return rows if layers > 1 and rows * layers > _MOST_FILES else rows * layers

    def create(self, path: Path, arrays: Sequence[PlainArray]) -> None:
        """Write the metadata of a group with ``arrays``; replaces what a killed run left."""
        import zarr
        from zarr.codecs import BytesCodec, ShardingCodec

        raw = [BytesCodec()]
        dimensions = dimension_names(arrays)
        fresh = path.with_name(path.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)
            group = zarr.create_group(store=str(fresh), zarr_format=3)
            for array in arrays:
                # What one file holds: a chunk, or the chunks of all layers over the same rows.
                file: dict[str, Any] = {"chunks": array.chunks}
                if self.n_maps(array) < math.prod(array.grid):
                    file["chunks"] = (array.chunks[0], array.shape[1], *array.chunks[2:])
                    file["serializer"] = ShardingCodec(
                        chunk_shape=array.chunks, codecs=raw, index_codecs=raw
                    )
                group.create_array(
                    array.name,
                    shape=array.shape,
                    dtype=array.dtype,
                    compressors=None,
                    filters=None,
                    fill_value=_FILL[array.dtype],
                    chunk_key_encoding={"name": "default", "separator": _SEPARATOR},
                    dimension_names=dimensions[array.name],
                    attributes=array.attributes,
                    config={"write_empty_chunks": True},
                    **file,
                )
        with suppress(FileNotFoundError):
            shutil.rmtree(path)
        fresh.rename(path)

    def open_writer(self, path: Path, arrays: Sequence[PlainArray]) -> ChunkWriter:
        """Return a writer of chunk files and shards."""
        with _reading(path / _METADATA, "group") as metadata:
            if (metadata["zarr_format"], metadata["node_type"]) != (3, "group"):
                raise ValueError("not a group")
        return ChunkWriter(path, [self.places(path, array) for array in arrays])

    def places(self, path: Path, array: PlainArray) -> ChunkPlaces:
        """Return the chunk files, after comparing the array's metadata with ``array``."""
        with _reading(path / array.name / _METADATA, "array") as metadata:
            layout = _layout(metadata)
        check_layout(path, array, layout)
        rows, layers = array.grid
        shards = layout["file"] != array.chunks
        folder = f"{path / array.name}{os.sep}"
        rest = [0] * (len(array.shape) - 2)  # there is one chunk along dim
        files = tuple(
            folder + _SEPARATOR.join(map(str, ["c", row_chunk, layer, *rest]))
            for row_chunk, layer in product(range(rows), range(1 if shards else layers))
        )
        file_index = np.arange(rows * layers, dtype=np.int64).reshape(rows, layers)
        offsets = np.zeros((rows, layers), dtype=np.int64)
        if not shards:
            return ChunkPlaces(array, files, file_index, offsets, tail=b"")
        size = array.chunk_nbytes
        offsets += np.arange(layers) * size
        # the index at the end of a shard: first byte and length of each chunk
        index = np.array([(at * size, size) for at in range(layers)], dtype="<u8")
        return ChunkPlaces(array, files, file_index // layers, offsets, tail=index.tobytes())


@contextmanager
def _reading(file: Path, what: str) -> Iterator[Any]:
    """Give what metadata hold to the block, and say where it does not find what it expects.

    Raises:
        EntryError: they are missing, or no such metadata.
    """
    try:
        yield json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise EntryError(f"{file} is missing: the entry is damaged. {REMEDY}") from None
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise EntryError(
            f"{file} is not Zarr v3 {what} metadata ({reason_of(error)}). {REMEDY}"
        ) from None


def _layout(metadata: Mapping[str, Any]) -> dict[str, object]:
    """Return the layout that an array's metadata tell of."""
    separator = metadata["chunk_key_encoding"]["configuration"]["separator"]
    within = tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"])
    codecs, chunks, raw = metadata["codecs"], within, separator == _SEPARATOR
    if codecs[0]["name"] == "sharding_indexed" and len(codecs) == 1:
        shard = codecs[0]["configuration"]
        codecs, chunks = shard["codecs"], tuple(shard["chunk_shape"])
        raw &= within == (chunks[0], metadata["shape"][1], *chunks[2:])
        raw &= shard["index_location"] == "end" and _are_bytes(shard["index_codecs"], "")
    raw &= _are_bytes(codecs, metadata["data_type"])
    return {
        "shape": tuple(metadata["shape"]),
        "chunks": chunks,
        "dtype": metadata["data_type"],
        "codecs": "uncompressed" if raw else f"{codecs}, chunk keys split by {separator!r}",
        "file": within,
    }


def _are_bytes(codecs: list[dict[str, Any]], dtype: str) -> bool:
    """Say whether codecs leave little-endian bytes as they are."""
    if len(codecs) != 1 or codecs[0]["name"] != "bytes":
        return False
    return dtype == "int8" or codecs[0]["configuration"]["endian"] == "little"
