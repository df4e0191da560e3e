"""The Zarr backend keeps the store's contract."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import zarr

from probekit.errors import EntryError, StorageError
from probekit.store.backends.zarr_folder import _FILL
from probekit.store.entry import Entry
from tests.store import synthetic
from tests.store.contract import StoreContract

FULL = Path("/dev/full")


class TestZarr(StoreContract):
    backend = "zarr"

    def read_independently(self, entry, name):
        return zarr.open_group(self.store(entry.path), mode="r")[name][:]

    def remove_chunk(self, entry):
        (self.store(entry.path) / "words" / "c.1.2.0").unlink()

    def shorten_chunk(self, entry):
        file = max((self.store(entry.path) / "words").glob("c.*"))
        file.write_bytes(file.read_bytes()[:-1])

    def test_every_chunk_has_a_file(self, fresh):
        """An array of zeros too: zarr-python leaves such chunks out and reads them as the fill."""
        for spec in fresh.manifest.arrays:
            rows, layers = spec.plain()[0].grid
            assert len(list((self.store(fresh.path) / spec.name).glob("c.*"))) == rows * layers

    def test_missing_chunks_of_floats_read_as_nan_elsewhere(self, fresh):
        """Readers that do not check see NaN, not plausible zeros."""
        metadata = json.loads((self.store(fresh.path) / "words" / "zarr.json").read_text())
        assert metadata["fill_value"] == "NaN"
        bits = np.array(_FILL["uint16"], np.uint16).view(np.int16)
        assert torch.from_numpy(bits).view(torch.bfloat16).isnan()

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("codecs", [{"name": "bytes"}, {"name": "zstd"}]),
            ("data_type", "float32"),
            ("codecs", [{"name": "bytes", "configuration": {"endian": "big"}}]),
        ],
    )
    def test_other_encodings_are_refused(self, fresh, field, value):
        file = self.store(fresh.path) / "words" / "zarr.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {field: value}))
        with pytest.raises(EntryError, match="array 'words' has"):
            Entry.open(fresh.path)

    def test_torn_metadata(self, fresh):
        file = self.store(fresh.path) / "words" / "zarr.json"
        file.write_text(file.read_text()[:50])
        with pytest.raises(EntryError, match="not Zarr v3 array metadata"):
            Entry.open(fresh.path)

    @pytest.mark.skipif(not FULL.is_char_device(), reason=f"{FULL} is not a device here")
    def test_a_device_that_is_really_full(self, path):
        with self.open(path) as builder:
            chunk = self.store(builder.partial) / "words" / "c.0.1.0"
            chunk.symlink_to(FULL)
            with pytest.raises(StorageError, match="No space left on device"):
                synthetic.write(builder, [0])
            chunk.unlink()
            synthetic.finish(builder, self.backend, "float16")
