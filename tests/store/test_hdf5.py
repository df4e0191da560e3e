"""The HDF5 backend keeps the store's contract."""

import os
from dataclasses import replace

import h5py
import numpy as np
import pytest
import torch

from probekit.errors import EntryError
from probekit.store.checksums import places_of
from probekit.store.entry import Entry
from probekit.store.mapping import map_array
from tests.store import synthetic
from tests.store.contract import StoreContract


def arrays_in(file):
    """Values and chunks of each array, without the data sets that name dimensions."""
    with h5py.File(file, "r") as source:
        return {name: (data[:], data.chunks) for name, data in source.items() if data.chunks}


def rewrite(file, **options):
    """Write the file anew with h5py's own defaults, as another program would."""
    arrays = arrays_in(file)
    with h5py.File(file, "w") as target:
        for name, (values, chunks) in arrays.items():
            target.create_dataset(name, data=values, chunks=chunks, **options)


class TestHdf5(StoreContract):
    backend = "hdf5"

    def read_independently(self, entry, name):
        with h5py.File(self.store(entry.path), "r") as file:
            return file[name][:]

    def described(self, entry, name):
        with h5py.File(self.store(entry.path), "r") as file:
            array = file[name]
            names = tuple(axis[0].name.removeprefix("/") for axis in array.dims)
            attributes = {
                "layers": array.attrs["layers"].tolist(),
                "comment": array.attrs["comment"],
            }
        return names, attributes

    def remove_chunk(self, entry):
        arrays = arrays_in(self.store(entry.path))
        with h5py.File(self.store(entry.path), "w") as file:
            for name, (values, chunks) in arrays.items():
                data = file.create_dataset(name, values.shape, values.dtype, chunks=chunks)
                for chunk in data.iter_chunks():
                    missing = name == "words" and (chunk[0].start, chunk[1].start) == (16, 2)
                    if not missing:
                        data[chunk] = values[chunk]

    def shorten_chunk(self, entry):
        os.truncate(self.store(entry.path), self.store(entry.path).stat().st_size // 2)

    def test_another_file_is_refused(self, fresh):
        file = self.store(fresh.path)
        with h5py.File(file, "r+") as store:
            del store["tokens"]
        with pytest.raises(EntryError, match="has no array 'tokens'"):
            Entry.open(fresh.path)
        rewrite(file, compression="gzip")
        with pytest.raises(EntryError, match="codecs filters"):
            Entry.open(fresh.path)
        file.write_bytes(b"something else")
        with pytest.raises(EntryError, match="does not open as HDF5"):
            Entry.open(fresh.path)

    def test_rewritten_file_reads_the_same(self, fresh):
        """Chunks then lie anywhere, between B-tree nodes."""
        expected = {name: array.read(slice(None)) for name, array in fresh.arrays.items()}
        rewrite(self.store(fresh.path))
        opened = Entry.open(fresh.path)
        rows = torch.tensor([90, 3, 3, 50])
        for name, array in opened.arrays.items():
            assert torch.equal(array.read(slice(None)), expected[name])
            assert torch.equal(array.read(rows), expected[name][rows])

    def test_chunks_at_odd_bytes_are_refused(self, fresh):
        """As h5py puts them with other bounds of its format: what is mapped there is no value."""
        places = places_of(fresh.path, self.backend, fresh.manifest.arrays)["words"]
        offsets = places.offsets - np.arange(places.offsets.size).reshape(places.offsets.shape)
        with pytest.raises(EntryError, match=r"'words': the chunks in .* whole number of values"):
            map_array(replace(places, offsets=offsets), torch.float16)

    def test_entry_opens_while_its_file_is_open(self, fresh):
        with h5py.File(self.store(fresh.path), "r") as file:
            read = Entry.open(fresh.path).arrays["words"].read(slice(3))
            np.testing.assert_array_equal(read.numpy(), file["words"][:3])

    def test_file_opens_at_any_moment(self, path):
        """Its structure never changes after creation."""
        with self.open(path) as builder:
            for unit in range(3):
                synthetic.write(builder, [unit])
                with h5py.File(builder.partial / "features.h5", "r", locking=False) as file:
                    assert file["words"].shape[2] == synthetic.DIM
                    assert np.isfinite(file["words"][:29]).all()
