"""An entry is planned so that it can be mapped, or refused before the model runs."""

import pytest
import torch

from probekit.errors import OptionError
from probekit.extraction.plan import UNIT_BYTES
from probekit.store import mapping
from probekit.store.backends import BACKENDS, zarr_folder
from probekit.store.mapping import check_mappable
from tests.extraction.extracted import all_rows, run
from tests.extraction.planned import plan_of


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize(
    "keep", [("cls", "mean", "last"), ("last", "tokens"), ("tokens",)], ids=str
)
def test_many_long_texts_of_a_large_model(keep, dtype):
    """50,000 texts of 700 subwords: a file per chunk would be 51,579 files an array."""
    plan = plan_of(50_000, 700, 4096, 32, keep, dtype=dtype)
    arrays = [plain for spec in plan.arrays.values() for plain in spec.plain()]
    assert sum(map(BACKENDS["zarr"].n_maps, arrays)) < 65_530 // 2
    rows = {name: int(plan.encoded.rows[name].sum()) for name in keep}
    assert all(spec.rows < 1.2 * rows[name] for name, spec in plan.arrays.items())
    wide = [spec for spec in plan.arrays.values() if len(keep) == 1 or spec.name != "tokens"]
    assert sum(spec.nbytes for spec in wide) / len(plan.units) < 2 * UNIT_BYTES


def test_small_splits_keep_a_file_for_each_chunk():
    plan = plan_of(2_000, 60, 768, 12, ("cls", "mean", "last"))
    for spec in plan.arrays.values():
        (plain,) = spec.plain()
        assert BACKENDS["zarr"].n_maps(plain) == spec.n_row_chunks * 13


def limit(tmp_path, monkeypatch, count):
    file = tmp_path / "max_map_count"
    file.write_text(f"{count}\n")
    monkeypatch.setattr(mapping, "_MAP_LIMIT", file)


def test_the_most_that_is_allowed(tmp_path, monkeypatch):
    (spec,) = arrays = plan_of(2_000, 60, 768, 12, ("last",)).arrays.values()
    needed = 13 * spec.n_row_chunks
    limit(tmp_path, monkeypatch, 2 * needed)
    check_mappable(BACKENDS["zarr"], arrays)
    limit(tmp_path, monkeypatch, 2 * needed - 1)
    with pytest.raises(
        OptionError, match=rf"would have {needed} files, and one entry may use at most half of the "
    ):
        check_mappable(BACKENDS["zarr"], arrays)
    check_mappable(BACKENDS["hdf5"], arrays)
    monkeypatch.setattr(mapping, "_MAP_LIMIT", tmp_path / "no such file")
    check_mappable(BACKENDS["zarr"], arrays)


def test_what_cannot_be_mapped_is_refused_before_the_model_runs(
    bert, corpus, tmp_path, small_units, monkeypatch
):
    limit(tmp_path, monkeypatch, 8)
    with monkeypatch.context() as patch:
        patch.setattr("probekit.extraction.opening.load_backbone", None)
        with pytest.raises(OptionError, match=r"--format hdf5 .* sysctl -w vm.max_map_count=\d+"):
            run(bert, corpus, tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.*"))
    assert run(bert, corpus, tmp_path / "cache", format="hdf5").manifest.backend == "hdf5"


def test_shards_hold_the_same_rows(bert, corpus, made, tmp_path, small_units, monkeypatch):
    plain = made(dtype="int8")
    monkeypatch.setattr(zarr_folder, "_MOST_FILES", 4)
    shards = run(bert, corpus, tmp_path, dtype="int8")
    assert torch.equal(all_rows(shards), all_rows(plain))
    assert shards.manifest.arrays == plain.manifest.arrays
    counts = [
        len(list((entry.path / "features.zarr" / "words").glob("c.*"))) for entry in (plain, shards)
    ]
    assert counts[0] == 4 * counts[1]
