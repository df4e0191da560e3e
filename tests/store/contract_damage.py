"""The store's contract: what is damaged is refused, never read as something else."""

import json
import os
import pickle
import shutil
from collections import Counter
from dataclasses import astuple
from pathlib import Path

import pytest

from probekit.base.fingerprint import unchecked
from probekit.errors import EntryError
from probekit.store import feature_array
from probekit.store.checksums import verify_checksums
from probekit.store.entry import Entry
from tests.store.backed import Backed


class DamageContract(Backed):
    """Missing, short, flipped and foreign."""

    def test_missing_chunk(self, fresh, tmp_path):
        if not self.lone_chunks:  # then none is missing, not even before it is written
            with self.open(tmp_path / "begun-00000000") as builder:
                for places in builder._writer.places.values():
                    assert places.check() is places
            return
        self.remove_chunk(fresh)
        expected = r"'words': chunk \(row chunk 1, layer index 2\) is missing.*cache verify"
        with pytest.raises(EntryError, match=expected):
            Entry.open(fresh.path)
        assert astuple(verify_checksums(fresh.path)[0].chunk)[:3] == ("words", 1, 2)

    def test_short_chunk(self, fresh):
        opened = Entry.open(fresh.path)
        self.shorten_chunk(fresh)
        with pytest.raises(EntryError, match=r"(is too short: |does not open as HDF5)"):
            Entry.open(fresh.path)
        # Reading past the end of a map would kill the process; mapping looks first.
        with pytest.raises(EntryError, match="is too short: "):
            for array in opened.arrays.values():
                array.read(slice(None))

    def test_flipped_byte(self, fresh):
        assert verify_checksums(fresh.path) == []
        self.flip(fresh, 2, 1)
        Entry.open(fresh.path)
        (damage,) = verify_checksums(fresh.path)
        assert astuple(damage.chunk)[:3] == ("words", 2, 1)
        place = fresh.arrays["words"]._places[0]
        assert place.files[place.file_index[2, 1]] in str(damage)

    def test_a_flip_is_found_by_who_reads_it(self, fresh):
        """Rows of other chunks can be read; those of this one cannot, in whatever way."""
        array = fresh.arrays["words"]
        size, layers = array.spec.chunk_rows, array.layers
        self.flip(fresh, 2, 1)
        opened = Entry.open(fresh.path).arrays["words"]
        opened.read([2 * size], [layers[0]])
        opened.read(slice(0, 2 * size))
        again = pickle.loads(pickle.dumps(opened))
        for rows in (slice(None), [2 * size + 1, 0]):
            for read in (opened.read, opened.read_stored, again.read):
                with pytest.raises(EntryError, match=r"row chunk 2, layer index 1 .*cache verify"):
                    read(rows, layers)
        with unchecked(True):
            opened.read(slice(None))

    def test_a_flip_of_what_int8_has_beside_is_found(self, tmp_path):
        fresh = self.build(tmp_path / "train-00000000", self.backend, "int8")
        for which in (1, 2):
            self.flip(fresh, 0, 0, which)
            with pytest.raises(EntryError, match=r"_(norm|scale)', row chunk 0, layer index 0"):
                Entry.open(fresh.path).arrays["words"].read([0])

    def test_what_was_compared_is_not_compared_again(self, fresh, monkeypatch):
        fresh.arrays["words"].read(slice(None))
        monkeypatch.setattr("probekit.store.feature_array.checksum", None)
        Entry.open(fresh.path).arrays["words"].read([3])

    def test_an_equal_entry_by_the_same_relative_path_is_another_one(
        self, fresh, tmp_path, monkeypatch
    ):
        here, there = fresh.path.parent, tmp_path / "there"
        shutil.copytree(here, there)
        monkeypatch.chdir(here)
        Entry.open(Path(fresh.path.name)).arrays["words"].read(slice(None))
        monkeypatch.chdir(there)
        self.flip(Entry.open(Path(fresh.path.name)), 0, 0)
        with pytest.raises(EntryError, match="row chunk 0, layer index 0"):
            Entry.open(Path(fresh.path.name)).arrays["words"].read(slice(None))

    def test_few_rows_of_many_chunks_are_compared_in_part(self, fresh, monkeypatch, caplog):
        array = fresh.arrays["words"]
        most = 2 * array._places[0].array.chunk_nbytes
        monkeypatch.setattr(feature_array, "_BYTES", Counter())
        with monkeypatch.context() as less:
            less.setattr(feature_array, "_FREE_BYTES", most)
            less.setattr(feature_array, "_PER_BYTE", 0)
            array.read([0, array.spec.chunk_rows])
        compared = fresh.arrays["words"]._first._compared["words"]
        assert compared.sum() == 2
        assert "not all chunks are compared" in caplog.text
        array.read(slice(None))
        assert compared.all(), "what was left is compared when there is room for it"

    @staticmethod
    def flip(entry, row_chunk, layer_index, which=0):
        """Flip a bit of a chunk of ``words``, or of what int8 has beside it."""
        place = entry.arrays["words"]._places[which]
        at = row_chunk, layer_index
        with open(place.files[place.file_index[at]], "r+b") as raw:
            raw.seek(int(place.offsets[at]) + 5)
            byte = raw.read(1)[0]
            raw.seek(-1, os.SEEK_CUR)
            raw.write(bytes([byte ^ 1]))

    def test_files_that_are_missing_or_other_ones(self, fresh):
        def refused(says):
            with pytest.raises(EntryError, match=says):
                _ = Entry.open(fresh.path).examples

        for name in ("examples.parquet", "checksums.parquet", "manifest.json"):
            (file := fresh.path / name).rename(aside := fresh.path.with_name("aside"))
            refused(rf"{name}.*--overwrite")
            aside.rename(file)
        (store := self.store(fresh.path)).rename(fresh.path / "elsewhere")
        refused("is missing")
        (fresh.path / "elsewhere").rename(store)
        file = fresh.path / "examples.parquet"
        data = bytearray(file.read_bytes())
        data[40] ^= 0xFF
        file.write_bytes(data)
        refused(r"examples\.parquet has changed since it was written")

    def test_another_manifest(self, fresh):
        """The manifest and the store must tell the same story."""
        file = fresh.path / "manifest.json"
        good = file.read_text()
        values = json.loads(good)
        values["arrays"][0]["dim"] = 12
        newer = good.replace('"format_version": 2', '"format_version": 3')
        for text, says in (
            (json.dumps(values), r"array 'words' has shape .* its manifest says"),
            (newer, r"format version 3, .* reads version 2; it was written by probekit 0: upg"),
        ):
            file.write_text(text)
            with pytest.raises(EntryError, match=says):
                Entry.open(fresh.path)
