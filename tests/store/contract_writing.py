"""The store's contract: writing, resuming and sealing."""

import itertools
import shutil
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from probekit.errors import EntryError, EntryNotFoundError
from probekit.store.entry import Entry
from tests.forks import kill_at
from tests.store import synthetic
from tests.store.backed import Backed


class WritingContract(Backed):
    """An entry is complete or absent, and the same bytes however it came to be."""

    @pytest.mark.parametrize("first", [(), (3, 1), (0, 1, 2, 3, 4)], ids=str)
    def test_resume(self, same, tmp_path, first):
        path = tmp_path / "resumed-00000000"
        with self.open(path) as builder:
            synthetic.write(builder, first)
        with self.open(path) as builder:
            found = {unit: mark.stats for unit, mark in builder.marks.items()}
            assert found == {unit: {"unit": unit} for unit in first}
            same(self.finish(builder))
            found = {unit: mark.stats["unit"] for unit, mark in builder.marks.items()}
            assert found == {unit: unit for unit in range(synthetic.N_UNITS)}
        assert not path.with_name(path.name + ".partial").exists()

    def test_torn_unit_is_written_again(self, same, tmp_path):
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
            same(self.finish(builder))

    @pytest.mark.parametrize(("torn", "left"), [("plan.json", set()), ("units/000001.json", {0})])
    def test_torn_bookkeeping(self, same, tmp_path, torn, left):
        path = tmp_path / "torn-00000000"
        with self.open(path) as builder:
            synthetic.write(builder, [0, 1])
        file = builder.partial / "building" / torn
        file.write_bytes(file.read_bytes()[:20])
        with self.open(path) as builder:
            assert builder.marks.keys() == left
            same(self.finish(builder))

    def test_a_partial_store_torn_anywhere_is_built_again(self, same, tmp_path, caplog):
        """As after a loss of power: any file may be there in name alone."""
        with self.open(tmp_path / "begun-00000000") as builder:
            synthetic.write(builder, [2, 3])
        files = sorted(file for file in builder.partial.rglob("*") if file.is_file())
        chunks = [file for file in files if file.name.startswith("c.")]
        places = builder._writer.places.values()
        alone = {Path(name) for place in places if place.tail is not None for name in place.files}
        tears = itertools.cycle(["emptied", "zeroed", "gone", "cut", "zeroed"])
        for file, tear in zip([f for f in files if f not in chunks[1:-1]] * 2, tears, strict=False):
            path = Path(tempfile.mkdtemp(dir=tmp_path)) / "torn-00000000"
            shutil.copytree(builder.partial, f"{path}.partial")
            copy = Path(f"{path}.partial") / file.relative_to(builder.partial)
            data = copy.read_bytes()
            left = {"cut": data[: len(data) // 2], "zeroed": bytes(len(data))}
            copy.write_bytes(left.get(tear, b""))
            if tear == "gone":
                copy.unlink()
            caplog.clear()
            with self.open(path) as again:
                afresh = [r for r in caplog.records if "starting over" in r.message]
                # zeros in a file of chunks alone are no torn store: their units are written again
                of_units = tear == "zeroed" and file in alone
                assert len(afresh) == (not (again.marks or of_units)), (copy, tear, caplog.text)
                same(self.finish(again), (copy, tear))

    def test_killed_twice(self, tmp_path):
        """In the middle of the fourth unit, and when all are written but the last."""
        build = partial(synthetic.build, backend=self.backend, dtype="int8")
        path = tmp_path / "killed-00000000"
        units = path.with_name(f"{path.name}.partial") / "building" / "units"
        for target, call, marked in (("codec.checksum", 80, 3), ("builder.write_pieces", 2, 4)):
            kill_at(f"probekit.store.{target}", call, partial(build, path))
            assert len(list(units.glob("*.json"))) == marked
        whole = build(tmp_path / "whole-00000000")
        assert synthetic.folder_bytes(build(path).path) == synthetic.folder_bytes(whole.path)

    def test_killed_between_manifest_and_rename(self, same, tmp_path, monkeypatch):
        path = tmp_path / "late-00000000"
        with monkeypatch.context() as patch, pytest.raises(TypeError), self.open(path) as builder:
            patch.setattr("probekit.store.builder.install", None)
            self.finish(builder)
        with pytest.raises(EntryError, match="unfinished"):
            Entry.open(path)
        with self.open(path) as builder:
            assert len(builder.marks) == synthetic.N_UNITS
            same(self.finish(builder))

    def test_units_of_another_plan_are_thrown_away_only_if_that_is_asked_for(self, path, caplog):
        other = synthetic.plan(self.backend, "float32")
        self.open(path, plan=other).close()  # of which nothing is finished: it makes way
        with self.open(path) as builder:
            synthetic.write(builder, [0])
        for overwrite in (False, True):
            with pytest.raises(EntryError, match=r"1 of 5 units.*other arrays.*--overwrite"):
                self.open(path, plan=other, overwrite=overwrite)
        with self.open(path) as builder:
            assert builder.marks.keys() == {0}
        with self.open(path, plan=other, restart=True) as builder:
            assert builder.marks.keys() == set()
            synthetic.finish(builder, self.backend, "float32")
        assert "starting over" in caplog.text

    def test_what_is_unfinished_is_refused(self, path):
        with pytest.raises(EntryNotFoundError, match="no cache entry"):
            Entry.open(path)
        with self.open(path) as builder:
            synthetic.write(builder, [0, 1])
            for place in (path, builder.partial):
                with pytest.raises(
                    EntryError, match=r"unfinished\. Run the same `probekit extract`"
                ):
                    Entry.open(place)
            with pytest.raises(EntryError, match=r"3 of 5 units are not written \(first: 2\)"):
                builder.complete(
                    synthetic.manifest(self.backend, "float16"), synthetic.examples().table, {}
                )
            synthetic.write(builder, [2, 4])
            blocks = {name: synthetic.block(3, name) for name in synthetic.ROWS}
            builder.write_unit(3, synthetic.row_start(0), blocks)  # units that share chunks
            with pytest.raises(EntryError, match="each of 44 chunks once"):
                self.finish(builder)
        assert not path.exists()

    def test_manifest_must_describe_the_plan(self, path):
        with self.open(path) as builder, pytest.raises(EntryError, match="other arrays"):
            synthetic.finish(builder, self.backend, "float32")

    @pytest.mark.parametrize("change", ["row", "layers", "beyond"])
    def test_blocks_must_fit(self, path, change):
        rows = {"row": 8, "layers": 0, "beyond": sum(synthetic.slots("words"))}[change]
        block = synthetic.block(0, "words")[: 3 if change == "layers" else 4]
        with self.open(path) as builder, pytest.raises(ValueError, match="fit"):
            builder.write_unit(0, {"words": rows}, {"words": block})

    def test_overwrite_replaces_when_complete(self, fresh):
        with pytest.raises(EntryError, match=r"is complete\. .*--overwrite"):
            self.open(fresh.path)
        with self.open(fresh.path, overwrite=True) as builder:
            synthetic.write(builder, [0])
            assert Entry.open(fresh.path).manifest == fresh.manifest
            entry = synthetic.finish(builder, self.backend, "float16", limit=5)
        assert entry.manifest.limit == 5
        names = [p.name for p in fresh.path.parent.iterdir()]
        assert sorted(names) == [fresh.path.name, f"{fresh.path.name}.lock"]
