"""The backends: Zarr v3 folders and HDF5 files behind one small contract."""

from collections.abc import Iterable
from pathlib import Path

from probekit.base.registry import choose
from probekit.store.arrays import ArraySpec
from probekit.store.backends.contract import Backend, ChunkPlaces, ChunkWriter
from probekit.store.backends.hdf5_file import Hdf5File
from probekit.store.backends.zarr_folder import ZarrFolder

BACKENDS: dict[str, Backend] = {"zarr": ZarrFolder(), "hdf5": Hdf5File()}

__all__ = ["BACKENDS", "Backend", "ChunkPlaces", "ChunkWriter", "places_of"]


def places_of(entry: Path, backend: str, arrays: Iterable[ArraySpec]) -> dict[str, ChunkPlaces]:
    """Return where the chunks of an entry's arrays should lie, by the names of plain arrays.

    Args:
        entry: the entry's folder.
        backend: name of its backend.
        arrays: arrays of the entry.

    Raises:
        EntryError: the store does not open, lacks an array, or holds another layout.
        UnknownNameError: there is no such backend.
    """
    chosen = choose("backend", backend, BACKENDS)
    store = entry / chosen.filename
    return {p.name: chosen.places(store, p) for spec in arrays for p in spec.plain()}
