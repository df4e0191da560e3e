"""Steps of several batches: the gradients of the whole, for the memory of one."""

import json
import shutil

import numpy as np
import pytest
import torch

from probekit.backbone import inspect_backbone, load_backbone
from probekit.base.registry import parse
from probekit.data.encoded import encoded_of
from probekit.features import open_features
from probekit.train.live import live_model
from probekit.train.live.live_model import LiveModel
from probekit.tuning import METHODS, Tuned
from tests.train.live.trained_runs import prepared

FAMILIES = ("bert", "llama")


@pytest.fixture(scope="module", params=FAMILIES)
def texts(request, tmp_path_factory):
    """A model, and the encoded texts of a corpus, of which windows cut some."""
    root = tmp_path_factory.mktemp(request.param)
    spec, at = prepared(root, request.param, layers="-1", max_positions=24)
    splits = open_features(spec.model, spec.task, location=at)
    if request.param == "llama":  # whose dropout is 0 by default
        configure(root / "model", attention_dropout=0.1)
    return root / "model", encoded_of(splits.entries["train"].examples).take(np.arange(8))


def without_dropout(model):
    """Return a copy of a model whose dropout is 0."""
    folder = model.with_name("still")
    if not folder.exists():
        shutil.copytree(model, folder)
        config = json.loads((folder / "config.json").read_text("utf-8"))
        configure(folder, **{name: 0.0 for name in config if "drop" in name})
    return folder


def configure(model, **changes):
    """Change a saved model's configuration."""
    place = model / "config.json"
    place.write_text(json.dumps(json.loads(place.read_text("utf-8")) | changes), "utf-8")


def open_all(model, batch_tokens):
    """Return a model of which everything is trained."""
    backbone = load_backbone(inspect_backbone(str(model)), compute_dtype="float32", learns=True)
    method = parse("method", "full", METHODS)
    tuned = Tuned(backbone.model, method.attach(backbone.model, torch.Generator()), method)
    return LiveModel(backbone, method, tuned, 0, "first", torch.float32, batch_tokens)


def gradients(model, texts, batch_tokens, *, drops, array="words"):
    """Return the gradients of a loss over all layers, and the bytes that its graph held."""
    live = open_all(model if drops else without_dropout(model), batch_tokens)
    live.tuned.train()
    held: list[int] = []

    def pack(value):
        held.append(value.nbytes)
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        every = np.arange(texts.rows[array].sum())
        rows = live.rows(texts, array, [0, 1, 2, 3], every)
    weights = torch.linspace(-1, 1, rows.numel()).reshape(rows.shape)
    (rows.tanh() * weights).sum().backward()
    found = {n: v.grad for n, v in live.backbone.model.named_parameters() if v.grad is not None}
    return found, sum(held)


def check_equal(found, wanted):
    assert found.keys() == wanted.keys() and found
    for name, value in found.items():
        torch.testing.assert_close(value, wanted[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("array", "batch_tokens"), [("words", 9), ("tokens", 48)])
def test_batches_and_blocks_have_the_gradients_of_the_whole(texts, batch_tokens, array):
    # some windows of up to 24 subwords are longer than 9: alone, and block by block
    whole, held = gradients(*texts, 10**6, drops=False, array=array)
    parts, least = gradients(*texts, batch_tokens, drops=False, array=array)
    check_equal(parts, whole)
    assert least < held / 4


def test_dropout_is_the_same_when_a_batch_is_computed_again(texts, monkeypatch):
    again, held = gradients(*texts, 48, drops=True)
    other, _ = gradients(*texts, 10**6, drops=True)
    assert any(not torch.allclose(again[name], other[name], rtol=1e-2) for name in again)
    monkeypatch.setattr(live_model, "checkpoint", lambda run, **options: run())
    kept, more = gradients(*texts, 48, drops=True)
    check_equal(again, kept)
    assert held < more / 4


@pytest.mark.parametrize("array", ["words", "tokens", "last", "mean"])
@torch.no_grad()
def test_only_the_windows_run_that_wanted_rows_are_made_of(texts, array, monkeypatch):
    model, encoded = texts
    live, ran = open_all(model, 10**6), []
    states_of = type(live.backbone).states_of

    def counted(self, batch, layers):
        ran.extend(batch.windows.tolist())
        return states_of(self, batch, layers)

    monkeypatch.setattr(type(live.backbone), "states_of", counted)
    every = np.arange(encoded.rows[array].sum())
    whole = live.rows(encoded, array, [0, 3], every)
    assert len(encoded.window_lengths) > len(encoded.ids)
    for wanted in (every[-1:], every[[0, len(every) // 2]], every[:0]):
        ran.clear()
        found = live.rows(encoded, array, [0, 3], wanted)
        assert len(ran) == len(set(ran)) and (len(ran) <= len(wanted) or array == "mean")
        torch.testing.assert_close(found[:, wanted], whole[:, wanted], rtol=1e-4, atol=1e-4)
