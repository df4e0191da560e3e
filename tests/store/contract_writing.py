"""The store's contract: writing, resuming and sealing."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from probekit.errors import EntryError, EntryNotFoundError
from probekit.store.entry import Entry
from tests.store import synthetic
from tests.store.backed import Backed


class WritingContract(Backed):
    """An entry is complete or absent, and the same bytes however it came to be."""

    def test_two_builds_are_the_same_bytes(self, fresh, tmp_path):
        again = synthetic.build(tmp_path / "again-00000000", self.backend, "float16")
        assert synthetic.folder_bytes(again.path) == synthetic.folder_bytes(fresh.path)

    @pytest.mark.parametrize("first", [(), (0,), (3, 1), (0, 1, 2, 3, 4)], ids=str)
    def test_resume(self, fresh, tmp_path, first):
        path = tmp_path / "resumed-00000000"
        with self.open(path) as builder:
            synthetic.write(builder, first)
        with self.open(path) as builder:
            assert builder.marks.keys() == set(first)
            found = {unit: mark.stats for unit, mark in builder.marks.items()}
            assert found == {unit: {"unit": unit} for unit in first}
            entry = synthetic.finish(builder, self.backend, "float16")
            found = {unit: mark.stats["unit"] for unit, mark in builder.marks.items()}
            assert found == {unit: unit for unit in range(synthetic.N_UNITS)}
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
            assert builder.marks.keys() == {1}
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
            assert builder.marks.keys() == (set() if torn == "plan.json" else {0})
            entry = synthetic.finish(builder, self.backend, "float16")
        assert synthetic.folder_bytes(entry.path) == synthetic.folder_bytes(fresh.path)

    @pytest.mark.parametrize("tear", ["emptied", "cut", "zeroed", "gone"])
    def test_a_partial_store_torn_anywhere_is_built_again(self, fresh, tmp_path, tear, caplog):
        """As after a loss of power: any file may be there in name alone."""
        expected = synthetic.folder_bytes(fresh.path)
        begun = tmp_path / "begun-00000000"
        with self.open(begun) as builder:
            synthetic.write(builder, [2, 3])
        files = sorted(file for file in builder.partial.rglob("*") if file.is_file())
        chunks = [file for file in files if file.name.startswith("c.")]
        places = [builder._backend.places(builder._store, plain) for plain in builder._plain]
        alone = {Path(name) for place in places if place.tail is not None for name in place.files}
        for number, file in enumerate(file for file in files if file not in chunks[1:-1]):
            path = tmp_path / f"torn{number}-00000000"
            shutil.copytree(builder.partial, f"{path}.partial")
            copy = Path(f"{path}.partial") / file.relative_to(builder.partial)
            data = copy.read_bytes()
            left = {"emptied": b"", "cut": data[: len(data) // 2], "zeroed": bytes(len(data))}
            copy.write_bytes(left.get(tear, b""))
            if tear == "gone":
                copy.unlink()
            caplog.clear()
            with self.open(path) as again:
                afresh = [r for r in caplog.records if "starting afresh" in r.message]
                # zeros in a file of chunks alone are no torn store: their units are written again
                of_units = tear == "zeroed" and file in alone
                assert len(afresh) == (not (again.marks or of_units)), (copy, caplog.text)
                entry = synthetic.finish(again, self.backend, "float16")
            assert synthetic.folder_bytes(entry.path) == expected, copy

    def test_killed_between_manifest_and_rename(self, fresh, tmp_path, monkeypatch):
        path = tmp_path / "late-00000000"
        with monkeypatch.context() as patch:
            patch.setattr("probekit.store.builder.install", _killed)
            with pytest.raises(KeyboardInterrupt), self.open(path) as builder:
                synthetic.finish(builder, self.backend, "float16")
        with pytest.raises(EntryError, match="unfinished"):
            Entry.open(path)
        with self.open(path) as builder:
            assert len(builder.marks) == synthetic.N_UNITS
            entry = synthetic.finish(builder, self.backend, "float16")
        assert synthetic.folder_bytes(entry.path) == synthetic.folder_bytes(fresh.path)

    def test_units_of_another_plan_are_thrown_away_only_if_that_is_asked_for(self, path, caplog):
        with self.open(path) as builder:
            synthetic.write(builder, [0])
        other = synthetic.plan(self.backend, "float32")
        for overwrite in (False, True):
            with pytest.raises(EntryError, match=r"1 of 5 units.*other arrays.*--overwrite"):
                self.open(path, plan=other, overwrite=overwrite)
        with self.open(path) as builder:
            assert builder.marks.keys() == {0}
        with self.open(path, plan=other, restart=True) as builder:
            assert builder.marks.keys() == set()
            synthetic.finish(builder, self.backend, "float32")
        assert "starting afresh" in caplog.text

    def test_another_plan_of_which_nothing_is_finished_makes_way(self, path):
        with self.open(path):
            pass
        with self.open(path, plan=synthetic.plan(self.backend, "float32")) as builder:
            synthetic.finish(builder, self.backend, "float32")

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
        assert entry.manifest.limit == 5
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


def _killed(*_):
    raise KeyboardInterrupt
