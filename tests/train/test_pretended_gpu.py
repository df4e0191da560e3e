"""Fits on a GPU that is pretended: a tensor that is left in the host's memory fails there."""

import pytest
import torch

from probekit.features import Location
from probekit.probe.heads import HEADS
from probekit.train.sweeps.run import fit
from probekit.train.sweeps.specs import TrainSpec
from tests.planted import MODEL, TASK, plant_all
from tests.planted_texts import plant_all_texts
from tests.pretended_gpu import WrongDevice, pretended_gpu

TAGS = {"task": TASK, "label": "ner"}
SOLVED = {"fit": "lbfgs", "l2": 10.0}
STEPS = {"epochs": 1, "batch_size": 16, "evals": 1}
RUNS = [
    *(TAGS | STEPS | {"head": head} for head in HEADS),
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
    plant_all(root, sentences=8, dtype="int8", final_norm=True, invalid=0.1)
    for task in ("glue/sst2", "glue/stsb"):
        plant_all_texts(root, task)
    return Location(cache=root)


def named(run):
    return " ".join(str(value) for value in run.values())


@pytest.mark.parametrize("memory", [0, 10**9], ids=["streamed", "held"])
@pytest.mark.parametrize("run", RUNS, ids=named)
def test_a_fit(cache, run, memory, monkeypatch):
    with pretended_gpu(monkeypatch):
        spec = TrainSpec(model=MODEL, **run)
        found = fit(spec, location=cache, device="cuda:0", memory=memory, ablate=True)
    assert all(torch.isfinite(value).all() for value in found.state.values())


@pytest.mark.parametrize(
    ("factory", "options"),
    [
        ("arange", {"decoder": "crf", **STEPS}),
        ("zeros", STEPS),
        ("empty", {"decoder": "mlp", **STEPS}),
        ("tensor", SOLVED),
    ],
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


def test_what_cuda_refuses_is_refused(monkeypatch):
    with pretended_gpu(monkeypatch) as gpu:
        there, here = torch.ones(2, 2, device=gpu), torch.ones(2, 2)
        moved, grown = here.to(gpu), torch.nn.Linear(2, 2).to(gpu)
        assert {one.device for one in (there, moved, grown.weight, grown(there), there.T)} == {gpu}
        assert here.device.type == there.cpu().device.type == "cpu" and not here.is_cuda
        refused = [
            lambda: there + here,
            lambda: grown(here),
            there.numpy,
            lambda: torch.cat([there, here]),
            lambda: torch.zeros(()).add_(there.sum()),
            lambda: torch.rand(2, device=gpu, generator=torch.Generator()),
        ]
        for attempt in refused:
            with pytest.raises(WrongDevice):
                attempt()
        grown(there).sum().backward()
        assert grown.weight.grad.device == gpu
        assert there[here[0].long()].device == gpu and (there * torch.tensor(2.0)).device == gpu
