"""Options of runs that train the model, and models in memory, a copy of which learns."""

import json
import re
import shutil
from dataclasses import replace

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from probekit import load_records, predict
from probekit.errors import BackboneError, MissingFileError, OptionError
from probekit.extraction import extract
from probekit.features import Location
from probekit.results.tables import summarise, table
from probekit.train.live import live_model
from probekit.train.live.live_rows import LiveSource
from probekit.train.sweeps.run import fit, sweep
from probekit.train.sweeps.specs import TrainSpec, product
from tests.tiny import build
from tests.train.live.trained_runs import FLOAT32, prepared
from tests.tuning.cases import installed


@pytest.fixture
def base(bert):
    return replace(bert.cached, head="mean", method="full", epochs=1, batch_size=8), bert.location


def test_samples_and_seeds_are_those_of_runs_from_the_cache(base, tmp_path):
    spec, at = base
    varied = {"method": ["bitfit", None], "seeds": 2}
    spec = replace(spec, select="dev")
    few = product(replace(spec, shots=4), varied)
    part = product(replace(spec, fraction=0.5), {"method": ["bitfit", None]})
    records = sweep([*few, *part], location=at, out=tmp_path / "runs.jsonl", device="cpu")
    assert len({record.key for record in records}) == 6
    for live, cached in zip(records[0:2], records[2:4], strict=True):
        assert live.seen["examples"] == cached.seen["examples"] == 4  # of one class
        assert live.seed == cached.seed and live.curve != cached.curve
    assert records[0].curve != records[1].curve
    assert [record.seen["examples"] for record in records[4:]] == [12, 12]


def test_what_is_normalised_are_rows_of_the_model_as_it_was(base):
    """Standardised is by mean and deviation before the first step, as from the cache."""
    spec, at = base
    spec = replace(spec, normalize="standardize")
    live = fit(spec, location=at)
    cached = fit(replace(spec, method=None, fit="adam"), location=at)
    names = [name for name in cached.state if name.startswith("normalization.")]
    assert names
    for name in names:
        torch.testing.assert_close(live.state[name], cached.state[name], rtol=1e-3, atol=1e-4)


def test_a_run_that_diverges_stops_and_is_recorded_under_its_seed(
    base, tmp_path, monkeypatch, caplog
):
    spec, at = base
    spec = replace(spec, seed=3, epochs=4, rates=(("backbone", 1e9),), evals=2)
    read, compute = [], LiveSource.compute
    monkeypatch.setattr(
        LiveSource,
        "compute",
        lambda self, places: (torch.is_grad_enabled() and read.append(1), compute(self, places))[1],
    )
    (record,) = sweep([spec], location=at, out=tmp_path / "runs.jsonl", device="cpu")
    assert record.diverged and record.seed == 3 and record.rates == {"backbone": 1e9}
    assert [point[0] for point in record.curve] == [6, 12]
    assert len(read) == 6, "six steps"
    assert "mean at --lr 0.01,backbone=1e+09: the loss or a trained value is no" in caplog.text
    again = sweep([spec], location=at, out=tmp_path / "runs.jsonl", device="cpu")
    assert list(again) == [record], "it is not tried again with another seed"


def test_a_text_of_any_split_that_does_not_fit_is_refused_before_the_first_step(tmp_path):
    installed("prompt")
    model = build("bert", tmp_path / "model", max_positions=24)
    short, long = (["Paris", "is"], ["B", "O"]), (["Paris", "is"] * 20, ["B", "O"] * 20)
    splits = {"train": [short] * 8, "dev": [short] * 2, "test": [long]}
    at = {"cache": tmp_path / "cache", "device": "cpu", "options": FLOAT32}
    extract(str(model), "mine", examples=splits, **at)
    spec = TrainSpec(model=str(model), task="mine", head="last", method="prompt:length=6", epochs=1)
    where = Location(cache=tmp_path / "cache")
    says = r"6 virtual tokens and a window of 24 sub.*--max-length 18"
    with pytest.raises(OptionError, match=says):
        fit(spec, location=where)
    with pytest.raises(
        OptionError, match=r"does not fit into a batch of 8, .*batch_tokens = 24 in"
    ):
        fit(replace(spec, method="prefix:length=2", batch_tokens=8), location=where)


def test_a_model_that_drops_out_more_trains_to_another_record(base, tmp_path):
    """Its states are the same, and so are its entries; a run from the cache is the same run."""
    spec, at = base
    more = shutil.copytree(spec.model, tmp_path / "more")
    config = json.loads((more / "config.json").read_text("utf-8"))
    (more / "config.json").write_text(json.dumps({**config, "hidden_dropout_prob": 0.5}), "utf-8")
    where = {"location": at, "out": tmp_path / "runs.jsonl"}
    plan = [replace(spec, model=model) for model in (spec.model, str(more))]
    one, other = sweep(plan, **where)
    assert one.entry == other.entry and one.key != other.key and one.scores != other.scores
    assert (one.options, other.options) == ({}, {"model.hidden_dropout_prob": 0.5})
    cached = [replace(one, method=None, rates=()) for one in plan]
    assert len({record.key for record in sweep(cached, **where)}) == 1
    assert "model.hidden_dropout_prob=0.5" in table(summarise(load_records(where["out"])))


def test_batches_that_make_no_difference_make_no_other_record(base, tmp_path):
    spec, at = base
    assert replace(spec, batch_tokens=4096) == spec
    plan = [replace(spec, method=m, batch_tokens=n) for m in ("frozen", "full") for n in (None, 64)]
    plan = [replace(one, fit="adam") for one in plan]
    records = sweep(plan, location=at, out=tmp_path / "runs.jsonl")
    assert len({record.key for record in records}) == 3
    assert len(load_records(tmp_path / "runs.jsonl")) == 3


def test_what_is_trained_is_told_before_the_first_step(base, caplog, monkeypatch):
    spec, at = base
    with caplog.at_level("INFO"):
        fit(spec, location=at)
    line = next(line for line in caplog.messages if "full trains" in line)
    assert re.search(r"full trains ([\d,]+) of \1 weights of .*: 3 steps\. So few steps", line)
    monkeypatch.setattr(live_model, "free_memory", lambda device: 1000)
    with pytest.raises(OptionError, match=r"and only 1\.0 kB are free on cpu\. Give a method"):
        fit(spec, location=at)


WORDS = [["Paris", "is"]]


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A model that was read, its folder, a corpus, and a cache with entries of both."""
    spec, at = prepared(tmp_path_factory.mktemp("given"))
    how = {"model": AutoModel.from_pretrained(spec.model).eval()}
    how["tokenizer"] = AutoTokenizer.from_pretrained(spec.model)
    extract(**how, task=spec.task, name="mine", cache=at.cache, device="cpu", options=FLOAT32)
    return how, spec.model, replace(spec, model="mine", fit="adam", epochs=1), at


@pytest.mark.parametrize("method", ["full", "lora"])
def test_a_copy_learns_what_the_saved_model_learns(given, method, tmp_path):
    installed(method)
    how, folder, spec, location = given
    model = how["model"]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    spec = replace(spec, method=method)
    found = fit(spec, location=location, save=tmp_path / "run", **how)
    read = fit(replace(spec, model=folder), location=location)
    assert found.curve == read.curve and found.n_backbone_params == read.n_backbone_params
    assert predict(tmp_path / "run", WORDS, device="cpu", **how)
    after = model.state_dict()
    assert after.keys() == before.keys() and not model.training
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert all(value.requires_grad for value in model.parameters())
    with pytest.raises(MissingFileError, match="was in memory when the head was made"):
        predict(tmp_path / "run", WORDS, device="cpu")
    told = "A whole model is saved there" if method == "full" else "base model at the same path"
    with pytest.raises(MissingFileError, match=f"'mine' was in memory when the saved run .*{told}"):
        extract(str(tmp_path / "run"), spec.task, cache=tmp_path, device="cpu")


def test_what_cannot_be_given(given):
    how, folder, spec, location = given
    tuning = replace(spec, method="full")
    with pytest.raises(MissingFileError, match="'mine' was in memory"):
        fit(tuning, location=location)
    other = AutoModel.from_pretrained(folder).eval()
    other.encoder.layer[0].output.dense.bias.data.fill_(1)
    with pytest.raises(BackboneError, match=r"not the one that .* was made with .'mine'.: weights"):
        fit(tuning, location=location, **{**how, "model": other})
    with pytest.raises(OptionError, match="give a method that runs it"):
        fit(spec, location=location, **how)
    with pytest.raises(OptionError, match="name its entry as well"):
        fit(head="last", task=spec.task, location=location, **how)
    with pytest.raises(BackboneError, match="needs its fast tokenizer"):
        fit(tuning, location=location, model=how["model"])
