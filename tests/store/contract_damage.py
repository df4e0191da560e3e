"""The store's contract: what is damaged is refused, never read as something else."""

import json
import os

import pytest

from probekit.base.notices import ProgressBar
from probekit.errors import (
    EntryError,
)
from probekit.store.checksums import read_checksums, verify_checksums
from probekit.store.entry import Entry
from tests.store.backed import Backed


class DamageContract(Backed):
    """Missing, short, flipped and foreign."""

    def test_missing_chunk(self, fresh, tmp_path):
        if not self.lone_chunks:  # then none is missing, not even before it is written
            with self.open(tmp_path / "begun-00000000") as builder:
                for plain in builder._plain:
                    place = builder._backend.places(builder._store, plain)
                    assert place.check() is place
            return
        self.remove_chunk(fresh)
        expected = r"'words': chunk \(row chunk 1, layer index 2\) is missing.*cache verify"
        with pytest.raises(EntryError, match=expected):
            Entry.open(fresh.path)
        assert [
            (d.chunk.array, d.chunk.row_chunk, d.chunk.layer_index)
            for d in verify_checksums(fresh.path)
        ][:1] == [("words", 1, 2)]

    def test_short_chunk(self, fresh):
        self.shorten_chunk(fresh)
        with pytest.raises(EntryError, match=r"(is short: expected|does not open as HDF5)"):
            Entry.open(fresh.path)

    def test_chunk_cut_after_opening(self, fresh):
        """Reading past the end of a map would kill the process; mapping looks first."""
        opened = Entry.open(fresh.path)
        self.shorten_chunk(fresh)
        with pytest.raises(EntryError, match="is short: expected"):
            for array in opened.arrays.values():
                array.read(slice(None))

    def test_chunks_are_counted_as_they_are_examined(self, fresh, monkeypatch):
        counted = []
        monkeypatch.setattr(ProgressBar, "report", lambda bar, chunks: counted.append(chunks))
        assert verify_checksums(fresh.path) == []
        assert counted == [1] * len(read_checksums(fresh.path, fresh.manifest))
        counted.clear()
        monkeypatch.setattr("probekit.store.checksums._examine", None)
        with pytest.raises(TypeError):
            verify_checksums(fresh.path)
        assert counted == []

    def test_flipped_byte(self, fresh):
        assert verify_checksums(fresh.path) == []
        backend_place = fresh.arrays["words"]._places[0]
        file = backend_place.files[backend_place.file_index[2, 1]]
        with open(file, "r+b") as raw:
            raw.seek(int(backend_place.offsets[2, 1]) + 5)
            byte = raw.read(1)[0]
            raw.seek(-1, os.SEEK_CUR)
            raw.write(bytes([byte ^ 1]))
        Entry.open(fresh.path)
        (damage,) = verify_checksums(fresh.path)
        assert (damage.chunk.array, damage.chunk.row_chunk, damage.chunk.layer_index) == (
            "words",
            2,
            1,
        )
        assert file in str(damage)

    @pytest.mark.parametrize("name", ["examples.parquet", "checksums.parquet", "manifest.json"])
    def test_missing_file(self, fresh, name):
        (fresh.path / name).unlink()
        with pytest.raises(EntryError, match=rf"{name}.*--overwrite"):
            Entry.open(fresh.path)

    def test_damaged_examples(self, fresh):
        file = fresh.path / "examples.parquet"
        data = bytearray(file.read_bytes())
        data[40] ^= 0xFF
        file.write_bytes(data)
        with pytest.raises(EntryError, match="cannot be read"):
            _ = Entry.open(fresh.path).examples

    def test_missing_store(self, fresh):
        self.store(fresh.path).rename(fresh.path / "elsewhere")
        with pytest.raises(EntryError, match="is missing"):
            Entry.open(fresh.path)

    def test_store_with_another_layout(self, fresh):
        """The manifest and the store must tell the same story."""
        file = fresh.path / "manifest.json"
        values = json.loads(file.read_text())
        values["arrays"][0]["dim"] = 12
        file.write_text(json.dumps(values))
        with pytest.raises(EntryError, match=r"array 'words' has shape .* its manifest says"):
            Entry.open(fresh.path)

    def test_newer_format_version(self, fresh):
        file = fresh.path / "manifest.json"
        file.write_text(file.read_text().replace('"format_version": 2', '"format_version": 3'))
        with pytest.raises(
            EntryError, match=r"format version 3, .* reads version 2; upgrade probekit"
        ):
            Entry.open(fresh.path)
