"""The contract of a store, run on every backend (see test_zarr.py and test_hdf5.py)."""

import errno
import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from probekit.errors import (
    EntryError,
    EntryLockedError,
    EntryNotFoundError,
    OptionError,
    StateRangeError,
    StorageError,
)
from probekit.store.arrays import FEATURE_DTYPES
from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry
from probekit.store.verify import verify_checksums
from tests.store import synthetic

ROW_LISTS = [[], [0], [95, 3, 3, 17, 16, 15, 0], [5, 6, 7], [14, 15, 16, 17, 33], [40, 39, 38]]


def stored(values, dtype):
    """What the store must return for float32 values, computed without torch."""
    if dtype == "float16":
        return values.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":  # round to nearest, ties to even, on the bits
        bits = values.view(np.uint32)
        return (
            ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
        )
    return values


def stored_int8(values, chunk_rows):
    """The int8 codec written out in NumPy, on (rows, layers, dim)."""
    out = np.zeros_like(values)
    for start in range(0, len(values), chunk_rows):
        chunk = values[start : start + chunk_rows]
        norm = np.sqrt((chunk.astype(np.float64) ** 2).sum(axis=2, keepdims=True))
        unit = chunk / np.where(norm > 0, norm, 1)
        scale = np.abs(unit).max(axis=0) / 127
        out[start : start + chunk_rows] = (
            np.round(unit / np.where(scale > 0, scale, 1)) * scale * norm
        )
    return out


class StoreContract:
    """Subclasses name the backend and say how to damage what it wrote."""

    backend: str

    def store(self, folder):
        return folder / {"zarr": "features.zarr", "hdf5": "features.h5"}[self.backend]

    def read_independently(self, entry, name):
        """Read a plain array with the format's own library."""
        raise NotImplementedError

    def remove_chunk(self, entry):
        """Make chunk (1, 2) of ``words`` disappear."""
        raise NotImplementedError

    def shorten_chunk(self, entry):
        """Cut the file that holds the last chunk."""
        raise NotImplementedError

    @pytest.fixture(scope="class", params=FEATURE_DTYPES)
    @classmethod
    def entry(cls, request, tmp_path_factory):
        """An entry of each dtype, not to be damaged."""
        path = tmp_path_factory.mktemp(request.param) / "train-00000000"
        return synthetic.build(path, cls.backend, request.param)

    @pytest.fixture
    def fresh(self, tmp_path):
        """A float16 entry that a test may damage."""
        return synthetic.build(tmp_path / "train-00000000", self.backend, "float16")

    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "train-00000000"

    def open(self, path, dtype="float16", **options):
        plan = options.pop("plan", synthetic.plan(self.backend, dtype))
        return EntryBuilder.open(path, plan=plan, **options)

    # Reading

    @pytest.mark.parametrize("name", ["words", "tokens"])
    def test_reads_what_was_written(self, entry, name):
        array = entry.arrays[name]
        got = array.read(slice(None)).float().numpy()
        given_values = synthetic.reference(name)
        if array.spec.dtype == "int8":
            expected = stored_int8(given_values, array.spec.chunk_rows)
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
            norms = np.linalg.norm(given_values, axis=2)
            errors = np.linalg.norm(got - given_values, axis=2)[norms > 0] / norms[norms > 0]
            assert np.median(errors) < 1e-2
        else:
            np.testing.assert_array_equal(got, stored(given_values, array.spec.dtype))

    @pytest.mark.parametrize("rows", ROW_LISTS, ids=str)
    @pytest.mark.parametrize("layers", [None, [2], [4, 0], [1, 1]], ids=str)
    def test_any_rows_and_layers(self, entry, rows, layers):
        array = entry.arrays["words"]
        whole = array.read(slice(0, array.rows))
        at = [synthetic.LAYERS.index(layer) for layer in layers or synthetic.LAYERS]
        got = array.read(torch.tensor(rows, dtype=torch.int64), layers)
        assert got.dtype == array.dtype
        assert torch.equal(got, whole[torch.tensor(rows, dtype=torch.int64)][:, at])

    @settings(max_examples=40, deadline=None)
    @given(data=st.data())
    def test_gathers_equal_indexing(self, entry, data):
        array = entry.arrays["words"]
        whole = array.read(slice(None))
        rows = torch.tensor(
            data.draw(st.lists(st.integers(0, array.rows - 1), max_size=60)), dtype=torch.int64
        )
        assert torch.equal(array.read(rows), whole[rows])
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, array.rows)] * 2)))
        assert torch.equal(array.read(slice(start, stop)), whole[start:stop])

    def test_long_gathers(self, entry):
        array = entry.arrays["words"]
        rows = torch.randint(array.rows, (1500,), generator=torch.Generator().manual_seed(0))
        assert torch.equal(array.read(rows, [4, 1]), array.read(slice(None))[rows][:, [3, 1]])

    @pytest.mark.parametrize("rows", [slice(3, 40), torch.tensor([7, 2, 7])], ids=["run", "gather"])
    def test_layers_come_first_in_memory(self, entry, rows):
        array = entry.arrays["words"]
        got = array.read(rows)
        assert got.permute(1, 0, 2).is_contiguous()
        out = array.empty(len(got), len(synthetic.LAYERS))
        assert array.read(rows, out=out) is out
        assert torch.equal(out, got)

    def test_out_must_fit(self, entry):
        array, rows = entry.arrays["words"], torch.tensor([1, 2])
        wrong_dtype = array.empty(2, 4).to(torch.float64)
        rows_first = torch.empty(2, 4, synthetic.DIM, dtype=array.dtype)
        for out in (array.empty(3, 4), wrong_dtype, rows_first):
            with pytest.raises(OptionError, match="out"):
                array.read(rows, out=out)

    @pytest.mark.parametrize("rows", [[-1], [3, 10_000]], ids=str)
    def test_unknown_row(self, entry, rows):
        with pytest.raises(OptionError, match=f"row {rows[-1]} does not exist; it has rows 0..1"):
            entry.arrays["words"].read(torch.tensor(rows))

    @pytest.mark.parametrize("rows", [slice(-3, 2), slice(0, 10_000), slice(0, 8, 2), slice(5, 4)])
    def test_unusable_slice(self, entry, rows):
        with pytest.raises(OptionError, match="slice"):
            entry.arrays["words"].read(rows)

    def test_unusable_rows(self, entry):
        for rows in (torch.tensor([1, 2], dtype=torch.int32), torch.tensor([[1]]), torch.ones(2)):
            with pytest.raises(OptionError, match="int64"):
                entry.arrays["words"].read(rows)

    def test_unknown_layer(self, entry):
        with pytest.raises(
            OptionError, match=r"layer 3 is not stored; it holds layers \[0, 1, 2, 4\]"
        ):
            entry.arrays["words"].read(slice(0, 2), [0, 3])

    def test_unknown_array(self, entry):
        assert set(entry.arrays) == {"words", "tokens"} and "cls" not in entry.arrays
        with pytest.raises(EntryError, match=r"no array 'cls'; it holds words, tokens.*--keep cls"):
            entry.arrays["cls"]

    def test_what_is_read_is_a_copy(self, entry):
        array = entry.arrays["words"]
        first = array.read(slice(0, 40))
        kept = first.clone()
        first.fill_(7)
        assert torch.equal(array.read(slice(0, 40)), kept)

    def test_no_descriptor_stays_open(self, entry):
        before = len(os.listdir("/proc/self/fd"))
        opened = Entry.open(entry.path)
        for array in opened.arrays.values():
            array.read(slice(None))
        assert len(os.listdir("/proc/self/fd")) == before

    def test_two_readers_at_once(self, entry):
        readers = [Entry.open(entry.path).arrays["words"] for _ in range(2)]
        rows = torch.randperm(readers[0].rows, generator=torch.Generator().manual_seed(1))
        expected = entry.arrays["words"].read(rows)
        with ThreadPoolExecutor(4) as pool:
            for got in pool.map(lambda i: readers[i % 2].read(rows), range(16)):
                assert torch.equal(got, expected)

    def test_examples_come_back(self, entry):
        assert entry.examples.table.equals(synthetic.examples().table)
        assert entry.examples.words(2) == ("w0",)
        starts = [synthetic.row_start(unit)["words"] for unit in range(synthetic.N_UNITS)]
        counts = synthetic.ROWS["words"]
        expected = [s + i for s, n in zip(starts, counts, strict=True) for i in range(n)]
        assert entry.examples.rows.tolist() == expected
        assert len(entry.examples.valid) == sum(counts)

    def test_the_formats_own_library_reads_the_same(self, entry):
        for spec in entry.manifest.arrays:
            values = self.read_independently(entry, spec.plain()[0].name)
            if spec.dtype == "int8":
                norm, scale = (self.read_independently(entry, p.name) for p in spec.plain()[1:])
                values = values * np.repeat(scale, spec.chunk_rows, axis=0) * norm[:, :, None]
            elif spec.dtype == "bfloat16":
                values = (values.astype(np.uint32) << 16).view(np.float32)
            got = entry.arrays[spec.name].read(slice(None)).float().numpy()
            np.testing.assert_allclose(got, values.astype(np.float32), rtol=1e-6)

    # Damage

    def test_missing_chunk(self, fresh):
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
        file.write_text(file.read_text().replace('"format_version": 1', '"format_version": 2'))
        with pytest.raises(
            EntryError, match=r"format version 2, .* reads version 1; upgrade probekit"
        ):
            Entry.open(fresh.path)

    # Writing

    def test_two_builds_are_the_same_bytes(self, fresh, tmp_path):
        again = synthetic.build(tmp_path / "again-00000000", self.backend, "float16")
        assert synthetic.folder_bytes(again.path) == synthetic.folder_bytes(fresh.path)

    @pytest.mark.parametrize("first", [(), (0,), (3, 1), (0, 1, 2, 3, 4)], ids=str)
    def test_resume(self, fresh, tmp_path, first):
        path = tmp_path / "resumed-00000000"
        with self.open(path) as builder:
            synthetic.write(builder, first)
        with self.open(path) as builder:
            assert builder.done_units == set(first)
            assert builder.unit_stats == [{"unit": unit} for unit in sorted(first)]
            entry = synthetic.finish(builder, self.backend, "float16")
            assert [stats["unit"] for stats in builder.unit_stats] == list(range(synthetic.N_UNITS))
        assert synthetic.folder_bytes(entry.path) == synthetic.folder_bytes(fresh.path)
        assert not path.with_name(path.name + ".partial").exists()

    def test_torn_unit_is_written_again(self, fresh, tmp_path):
        """Chunks without a mark, and marked chunks whose bytes a power cut lost."""
        path = tmp_path / "torn-00000000"
        with self.open(path) as builder:
            synthetic.write(builder, [0, 1])
            plain = builder.arrays["words"].plain()[0]
            garbage = np.full(plain.chunks, 3, dtype=plain.dtype)
            builder._writer.write(plain, 0, 3, garbage)  # of unit 0, which is marked
            builder._writer.write(plain, 5, 1, garbage)  # of a later unit
        with self.open(path) as builder:
            assert builder.done_units == {1}
            entry = synthetic.finish(builder, self.backend, "float16")
        assert synthetic.folder_bytes(entry.path) == synthetic.folder_bytes(fresh.path)

    @pytest.mark.parametrize("torn", ["plan.json", "units/000001.json"])
    def test_torn_bookkeeping(self, fresh, tmp_path, torn, caplog):
        path = tmp_path / "torn-00000000"
        with self.open(path) as builder:
            synthetic.write(builder, [0, 1])
        file = builder.partial / "building" / torn
        file.write_bytes(file.read_bytes()[:20])
        with self.open(path) as builder:
            assert builder.done_units == (set() if torn == "plan.json" else {0})
            entry = synthetic.finish(builder, self.backend, "float16")
        assert synthetic.folder_bytes(entry.path) == synthetic.folder_bytes(fresh.path)

    def test_killed_between_manifest_and_rename(self, fresh, tmp_path, monkeypatch):
        path = tmp_path / "late-00000000"
        with monkeypatch.context() as patch:
            patch.setattr("probekit.store.builder.install", _killed)
            with pytest.raises(KeyboardInterrupt), self.open(path) as builder:
                synthetic.finish(builder, self.backend, "float16")
        with pytest.raises(EntryError, match="unfinished"):
            Entry.open(path)
        with self.open(path) as builder:
            assert len(builder.done_units) == synthetic.N_UNITS
            entry = synthetic.finish(builder, self.backend, "float16")
        assert synthetic.folder_bytes(entry.path) == synthetic.folder_bytes(fresh.path)

    def test_another_plan_starts_afresh(self, path, caplog):
        with self.open(path) as builder:
            synthetic.write(builder, [0])
        with self.open(path, plan=synthetic.plan(self.backend, "float32")) as builder:
            assert builder.done_units == set()
            synthetic.finish(builder, self.backend, "float32")
        assert "another plan" in caplog.text

    def test_unfinished_entry_is_refused(self, path):
        with self.open(path) as builder:
            synthetic.write(builder, [0])
            for place in (path, builder.partial):
                with pytest.raises(
                    EntryError, match=r"unfinished\. Run the same `probekit extract`"
                ):
                    Entry.open(place)

    def test_no_entry(self, path):
        with pytest.raises(EntryNotFoundError, match="no cache entry"):
            Entry.open(path)

    def test_incomplete_entry_is_not_sealed(self, path):
        with self.open(path) as builder:
            synthetic.write(builder, [0, 1, 3])
            with pytest.raises(EntryError, match=r"2 of 5 units are not written \(first: 2\)"):
                builder.complete(
                    synthetic.manifest(self.backend, "float16"), synthetic.examples().table, {}
                )
        assert not path.exists()

    def test_units_that_share_chunks_are_not_sealed(self, path):
        with self.open(path) as builder:
            synthetic.write(builder, [0, 1, 2, 4])
            blocks = {name: synthetic.block(3, name) for name in synthetic.ROWS}
            builder.write_unit(3, synthetic.row_start(0), blocks)
            with pytest.raises(EntryError, match="each of 44 chunks once"):
                synthetic.finish(builder, self.backend, "float16")

    def test_manifest_must_describe_the_plan(self, path):
        with self.open(path) as builder, pytest.raises(EntryError, match="other arrays"):
            synthetic.finish(builder, self.backend, "float32")

    @pytest.mark.parametrize("change", ["row", "layers", "beyond"])
    def test_blocks_must_fit(self, path, change):
        rows = {"row": 8, "layers": 0, "beyond": sum(synthetic.slots("words"))}[change]
        block = synthetic.block(0, "words")[: 3 if change == "layers" else 4]
        with self.open(path) as builder, pytest.raises(ValueError, match="fit"):
            builder.write_unit(0, {"words": rows}, {"words": block})

    def test_complete_entry_is_kept(self, fresh):
        with pytest.raises(EntryError, match=r"is complete\. To build it again, .*--overwrite"):
            self.open(fresh.path)

    def test_overwrite_replaces_when_complete(self, fresh):
        with self.open(fresh.path, overwrite=True) as builder:
            synthetic.write(builder, [0])
            assert Entry.open(fresh.path).manifest == fresh.manifest
            entry = synthetic.finish(builder, self.backend, "float16", limit=5)
        assert entry.manifest.request["limit"] == 5
        assert sorted(p.name for p in fresh.path.parent.iterdir()) == [
            "train-00000000",
            "train-00000000.lock",
        ]

    def test_killed_while_replacing(self, fresh):
        """The old entry is moved away but the new one is not there yet: the old one returns."""
        fresh.path.rename(fresh.path.with_name(fresh.path.name + ".replaced"))
        with pytest.raises(EntryError, match="is complete"):
            self.open(fresh.path)
        assert Entry.open(fresh.path).manifest == fresh.manifest

    # The lock

    def test_second_writer_is_told_who_holds_it(self, path):
        with self.open(path):
            name = f"process {os.getpid()} on {socket.gethostname()}, started 20"
            with pytest.raises(EntryLockedError, match=name):
                self.open(path)
        self.open(path).close()

    def test_stale_owner_is_harmless(self, path):
        owner = path.with_name(path.name + ".lock.json")
        owner.write_text('{"host": "gone", "pid": 1, "started": "2020"}')
        path.with_name(path.name + ".lock").touch()
        with self.open(path):
            assert json.loads(owner.read_text())["pid"] == os.getpid()
        assert not owner.exists()

    def test_unreadable_owner(self, path):
        with self.open(path):
            path.with_name(path.name + ".lock.json").write_text("{")
            with pytest.raises(EntryLockedError, match="another process"):
                self.open(path)

    # Refusals of values and of the file system

    @pytest.mark.parametrize("value", [1e5, float("nan"), float("-inf")])
    @pytest.mark.parametrize("dtype", FEATURE_DTYPES)
    def test_values_out_of_range(self, path, dtype, value):
        blocks = {name: synthetic.block(0, name) for name in synthetic.ROWS}
        blocks["words"][2, 20, 7] = value
        with self.open(path, dtype) as builder:
            if value == 1e5 and dtype != "float16":
                builder.write_unit(0, synthetic.row_start(0), blocks)
                return
            remedy = "--dtype bfloat16" if value == 1e5 else "--compute-dtype float32"
            expected = rf"'words', layer 2, row chunk 1: .*{dtype}, found .*{remedy}"
            with pytest.raises(StateRangeError, match=expected):
                builder.write_unit(0, synthetic.row_start(0), blocks)
            assert builder.done_units == set()

    @pytest.mark.parametrize(
        ("number", "says"),
        [
            (errno.ENOSPC, r"\d GB still to write, .* GB free\). Free some space"),
            (errno.EDQUOT, "run the same command again"),
            (errno.EACCES, "write permission, or choose another folder with --cache"),
            (errno.EROFS, "--cache ROOT"),
        ],
    )
    def test_refused_write(self, fresh, tmp_path, monkeypatch, number, says):
        path = tmp_path / "full-00000000"

        def refuse(*_):
            raise OSError(number, os.strerror(number))

        with self.open(path) as builder:
            synthetic.write(builder, [0])
            with monkeypatch.context() as patch:
                patch.setattr(builder._writer, "write", refuse)
                with pytest.raises(StorageError, match=says) as caught:
                    synthetic.write(builder, [1])
            assert str(builder.partial) in str(caught.value)
        with self.open(path) as builder:
            assert builder.done_units == {0}
            entry = synthetic.finish(builder, self.backend, "float16")
        assert synthetic.folder_bytes(entry.path) == synthetic.folder_bytes(fresh.path)

    def test_unwritable_folder(self, path, monkeypatch):
        def refuse(folder, *_, **__):
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))

        monkeypatch.setattr("pathlib.Path.mkdir", refuse)
        with pytest.raises(StorageError, match=f"cannot write to {path.parent}: Permission denied"):
            self.open(path)


def _killed(*_):
    raise KeyboardInterrupt
