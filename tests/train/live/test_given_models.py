"""Models in memory that a method trains: a copy of them learns."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from probekit import fit, predict
from probekit.errors import BackboneError, MissingFileError, OptionError
from probekit.extraction import extract
from tests.train.live.trained_runs import FLOAT32, prepared
from tests.tuning.cases import installed

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
