"""The backends: Zarr v3 folders and HDF5 files behind one small contract."""

from probekit.store.backends.contract import Backend, ChunkPlaces, ChunkWriter
from probekit.store.backends.hdf5_file import Hdf5File
from probekit.store.backends.zarr_folder import ZarrFolder

BACKENDS: dict[str, Backend] = {"zarr": ZarrFolder(), "hdf5": Hdf5File()}

__all__ = ["BACKENDS", "Backend", "ChunkPlaces", "ChunkWriter"]
