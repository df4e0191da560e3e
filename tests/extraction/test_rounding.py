"""Rows are rounded once, to a dtype that holds them, and what none holds is refused."""

import pytest
import torch
from transformers import AutoModel

from probekit.backbone import add_rows
from probekit.errors import StateRangeError
from probekit.extraction.compute import compute_unit
from probekit.extraction.plan import row_dtypes
from tests import tiny
from tests.extraction.extracted import all_rows, run
from tests.extraction.planned import plan_of


def test_statistics_are_those_of_the_rows(made):
    expected = all_rows(made()).abs().amax(dim=(0, 2)).tolist()
    statistics = made().manifest.statistics
    assert statistics["max_abs"]["words"] == pytest.approx(expected, rel=1e-6)
    assert statistics["non_finite"]["words"] == [0] * 4


@pytest.mark.parametrize(
    ("dtype", "pooling", "computed"),
    [("float16", "mean", "bfloat16"), ("bfloat16", "first", "bfloat16")],
)
def test_rows_are_rounded_once(made, dtype, pooling, computed):
    options = {
        "keep": ("words", "tokens", "mean"),
        "pooling": pooling,
        "compute_dtype": computed,
        "max_length": 12,  # a mean over several windows
    }
    exact, rounded = made(**options), made(**options, dtype=dtype)
    for name, array in rounded.arrays.items():
        rows = torch.arange(array.spec.rows)
        expected = exact.arrays[name].read(rows).to(getattr(torch, dtype))
        assert torch.equal(array.read(rows), expected), name


@pytest.mark.parametrize(
    ("dtype", "held"),
    [
        ("auto", torch.float16),
        ("bfloat16", torch.bfloat16),
        ("float32", torch.float32),
        ("int8", torch.float32),
    ],
)
def test_a_unit_holds_what_will_be_stored(dtype, held):
    arrays = plan_of(10, 5, 8, 2, ("cls", "mean"), dtype=dtype).arrays
    cls, mean = (row_dtypes(array, torch.float32, "first")[1] for array in arrays.values())
    assert (cls, mean) == (held, torch.float32)


def test_auto_becomes_bfloat16_where_float16_overflows(wide_bert, corpus, tmp_path):
    entry = run(wide_bert, corpus, tmp_path, dtype="auto")
    assert entry.manifest.request["dtype"] == "auto"
    assert entry.manifest.dtype == "bfloat16"
    assert entry.manifest.statistics["max_abs"]["words"][0] > 65504
    exact = all_rows(run(wide_bert, corpus, tmp_path))
    assert torch.equal(all_rows(entry), exact.bfloat16().float())


@pytest.mark.usefixtures("small_units")
def test_rows_are_rounded_once_where_a_mean_alone_overflows(
    bert, corpus, made, tmp_path, monkeypatch
):
    """Of arrays in float16, nothing is infinite then, and yet bfloat16 is to be stored."""

    def with_wide_means(backbone, batch, layers, blocks):
        add_rows(backbone, batch, layers, blocks)
        blocks["mean"][:, batch.picks["mean"].target] = 1e5

    monkeypatch.setattr("probekit.extraction.compute.add_rows", with_wide_means)
    entry = run(bert, corpus, tmp_path, keep=("words", "mean"), dtype="auto")
    assert entry.manifest.dtype == "bfloat16"
    assert torch.equal(all_rows(entry), all_rows(made()).bfloat16().float())


@pytest.mark.usefixtures("small_units")
def test_float16_that_overflows_is_refused_with_the_command_to_rerun(wide_bert, corpus, tmp_path):
    largest = all_rows(run(wide_bert, corpus, tmp_path, limit=5)).abs().max()
    message = rf"layer 0 of examples train-0 .* {largest:,.0f}; .*--dtype bfloat16"
    with pytest.raises(StateRangeError, match=message):
        run(wide_bert, corpus, tmp_path / "c", dtype="float16", limit=5)
    assert not list((tmp_path / "c").rglob("*.partial"))


@pytest.mark.usefixtures("small_units")
def test_a_later_unit_that_overflows_is_named(bert, corpus, tmp_path, monkeypatch):
    units = []

    def growing(backbone, plan, unit, *arguments):
        units.append(unit.index)
        with monkeypatch.context() as patch:
            if unit.index == 2:
                patch.setattr("probekit.extraction.compute.add_rows", too_large)
            return compute_unit(backbone, plan, unit, *arguments)

    def too_large(backbone, batch, layers, blocks):
        for block in blocks.values():
            block[-1] = torch.tensor(70_000.0)

    monkeypatch.setattr("probekit.extraction.compute.compute_unit", growing)
    with pytest.raises(StateRangeError, match=r"layer 3 of examples .* 70,000; .*--dtype bfloat16"):
        run(bert, corpus, tmp_path, dtype="auto")
    assert units == [1, 2]


@pytest.fixture(scope="module")
def broken_bert(tmp_path_factory):
    folder = tiny.build("bert", tmp_path_factory.mktemp("broken"))
    model = AutoModel.from_pretrained(folder)
    with torch.no_grad():
        model.encoder.layer[1].output.dense.bias[3] = float("nan")
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_a_nan_never_reaches_the_disk(broken_bert, corpus, tmp_path, dtype):
    with pytest.raises(StateRangeError, match=r"layer 2 of examples .* NaN"):
        run(broken_bert, corpus, tmp_path, dtype=dtype)
    assert not list(tmp_path.rglob("*.partial"))
