"""The Zarr backend keeps the store's contract."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import zarr

from probekit.errors import EntryError, StorageError
from probekit.store.backends.zarr_folder import _FILL
from probekit.store.checksums import verify_checksums, verify_files
from probekit.store.entry import Entry
from probekit.store.layout import FEATURE_DTYPES
from tests.store import synthetic
from tests.store.contract import StoreContract
from tests.store.contract_writing import WritingContract

FULL = Path("/dev/full")


class TestZarr(StoreContract):
    backend = "zarr"

    def read_independently(self, entry, name):
        return zarr.open_group(self.store(entry.path), mode="r")[name][:]

    def described(self, entry, name):
        array = zarr.open_group(self.store(entry.path), mode="r")[name]
        return array.metadata.dimension_names, dict(array.attrs)

    def remove_chunk(self, entry):
        (self.store(entry.path) / "words" / "c.1.2.0").unlink()

    def shorten_chunk(self, entry):
        file = max((self.store(entry.path) / "words").glob("c.*"))
        file.write_bytes(file.read_bytes()[:-1])

    def test_missing_chunks_are_seen(self, fresh):
        """Each has a file, of zeros too; readers that do not check see NaN, not plausible zeros."""
        for spec in fresh.manifest.arrays:
            rows, layers = spec.plain()[0].grid
            assert len(list((self.store(fresh.path) / spec.name).glob("c.*"))) == rows * layers
        metadata = json.loads((self.store(fresh.path) / "words" / "zarr.json").read_text())
        assert metadata["fill_value"] == "NaN"
        bits = np.array(_FILL["uint16"], np.uint16).view(np.int16)
        assert torch.from_numpy(bits).view(torch.bfloat16).isnan()

    def test_other_metadata_is_refused(self, fresh):
        file = self.store(fresh.path) / "words" / "zarr.json"
        good = file.read_text()
        big = {"name": "bytes", "configuration": {"endian": "big"}}
        for field, value in (
            ("codecs", [{"name": "bytes"}, {"name": "zstd"}]),
            ("codecs", [big]),
            ("data_type", "float32"),
        ):
            file.write_text(json.dumps(json.loads(good) | {field: value}))
            with pytest.raises(EntryError, match="array 'words' has"):
                Entry.open(fresh.path)
        file.write_text(good[:50])
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


class TestShards(WritingContract):
    """Where a file per chunk would be too many: the chunks of all layers in one file."""

    backend = "zarr"
    build = staticmethod(synthetic.build)

    @pytest.fixture(autouse=True)
    def few_files(self, monkeypatch):
        monkeypatch.setattr("probekit.store.backends.zarr_folder._MOST_FILES", 8)

    @pytest.mark.parametrize("dtype", FEATURE_DTYPES)
    def test_zarr_reads_what_was_written(self, tmp_path, dtype):
        entry = synthetic.build(tmp_path / "train-00000000", "zarr", dtype)
        for spec in entry.manifest.arrays:
            for plain in spec.plain():
                values = zarr.open_group(self.store(entry.path), mode="r")[plain.name][:]
                files = list((self.store(entry.path) / plain.name).glob("c.*"))
                assert len(files) == plain.grid[0]
                if dtype not in ("int8", "bfloat16"):
                    read = entry.arrays[spec.name].read(slice(None)).numpy()
                    np.testing.assert_array_equal(values, read)
        read = entry.arrays["words"].read(torch.tensor([3, 90, 17]), [4, 0]).float()
        given = synthetic.reference("words")[[3, 90, 17]][:, [3, 0]]
        np.testing.assert_allclose(read.numpy(), given, rtol=0.02, atol=0.5)

    def test_what_is_wrong_in_a_shard(self, fresh):
        assert verify_files(fresh.path) == [] == verify_checksums(fresh.path)
        file = self.store(fresh.path) / "words" / "c.1.0.0"
        data = file.read_bytes()
        file.write_bytes(data[:-1] + b"\x01")
        assert verify_files(fresh.path) == [f"{file} has changed since it was written"]
        file.write_bytes(data[:800] + b"\x01" + data[801:])
        (damage,) = verify_checksums(fresh.path)
        assert (damage.chunk.row_chunk, damage.chunk.layer_index, damage.offset) == (1, 1, 768)
        file.write_bytes(data[:2000])
        with pytest.raises(EntryError, match=r"row chunk 1, layer index 2\) is too short"):
            Entry.open(fresh.path)
        file.unlink()
        with pytest.raises(EntryError, match=r"row chunk 1, layer index 0\) is missing"):
            Entry.open(fresh.path)
