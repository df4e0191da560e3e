"""Fits on a GPU that is pretended: a tensor that is left in the host's memory fails there."""

import pytest
import torch

from probekit.features import Location, open_features
from probekit.probe.heads import HEADS
from probekit.train.sweeps.run import fit
from probekit.train.sweeps.specs import TrainSpec
from tests.fake_gpu import CUDA_IS_REAL
from tests.planted import MODEL, TASK, plant_all
from tests.planted_texts import plant_texts
from tests.pretended_gpu import WrongDevice, pretended_gpu
from tests.train import grouped
from tests.train.grouped import member, stream

TAGS = {"task": TASK, "label": "ner"}
SOLVED = {"fit": "lbfgs", "l2": 10.0}
STEPS = {"epochs": 1, "batch_size": 16, "evals": 1}
RUNS = [
    *(TAGS | STEPS | {"head": "p32", "decoder": name} for name in ("mlp", "crf:hidden=5")),
    *(TAGS | STEPS | {"head": "p32", "normalize": name} for name in ("layernorm", "final-norm")),
    TAGS | STEPS | {"head": "concat", "shots": 2, "control": 1},
    {"task": "glue/sst2", "head": "extra-layers", "decoder": "pooler", **STEPS},
    {"task": "glue/stsb", "head": "p32", "decoder": "regression", **STEPS},
    {"task": "glue/stsb", "head": "last", "fit": "ridge", "l2": 0.1},
    *(TAGS | SOLVED | {"head": head} for head in ("last", "p32", "attention-fusion")),
    TAGS | {"head": "last", "fit": "lbfgs", "select": "cv:2"},
    TAGS | SOLVED | {"head": "last", "decoder": "crf"},
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    root = tmp_path_factory.mktemp("cache")
    plant_all(root, sentences=5, dtype="int8", final_norm=True, invalid=0.1)
    for task in ("glue/sst2", "glue/stsb"):
        for split in ("train", "dev"):
            plant_texts(root, task, split, count=20)
    return Location(cache=root)


def named(run):
    return " ".join(str(value) for value in run.values())


@CUDA_IS_REAL  # an LSTM asks cuDNN
def test_all_heads_beside_each_other(cache, monkeypatch):
    splits = open_features(MODEL, TASK, "ner", cache)
    heads = stream(splits, *(member(head, lr=1e-3) for head in HEADS), epochs=1, evals=1)
    with pretended_gpu(monkeypatch):
        (results,) = grouped.fit(splits, heads, device="cuda:0", memory=0, ablate=True)
    assert all(value.isfinite().all() for result in results for value in result.state.values())


@pytest.mark.parametrize("number", range(len(RUNS)), ids=[*map(named, RUNS)])
def test_a_fit_whose_rows_are_streamed_or_held(cache, number, monkeypatch):
    with pretended_gpu(monkeypatch):
        spec, memory = TrainSpec(model=MODEL, **RUNS[number]), (0, 10**9)[number % 2]
        found = fit(spec, location=cache, device="cuda:0", memory=memory, ablate=True)
    assert all(torch.isfinite(value).all() for value in found.state.values())


@pytest.mark.parametrize(
    ("factory", "options"), [("arange", {"decoder": "crf", **STEPS}), ("tensor", SOLVED)]
)
def test_a_tensor_that_is_made_without_its_device_is_found(cache, factory, options, monkeypatch):
    make = getattr(torch, factory)
    with pretended_gpu(monkeypatch):
        monkeypatch.setattr(torch, factory, lambda *a, device=None, **how: make(*a, **how))
        with pytest.raises(WrongDevice):
            fit(
                TrainSpec(model=MODEL, head="last", **TAGS, **options),
                location=cache,
                device="cuda:0",
            )
