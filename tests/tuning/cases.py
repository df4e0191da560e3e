"""Tiny models that methods are attached to, what they are run over, and what a run predicted."""

import pyarrow.parquet as pq
import pytest
import torch
from torch.testing import assert_close

from probekit.backbone import inspect_backbone, load_backbone
from probekit.base.registry import parse
from probekit.tuning import METHODS

IDS, LENGTHS = torch.arange(9, 17)[None], torch.tensor([8])


def installed(method):
    """Skip a test where the packages of a method are not installed."""
    name = method.partition(":")[0]
    if name in ("lora", "qlora", "prompt", "prefix"):
        pytest.importorskip("peft", reason="the optional extra finetune is not installed")
    if METHODS[name].quantizes:
        pytest.importorskip("bitsandbytes", reason="the optional extra finetune is not installed")


def learning(folder):
    """Return a saved model that takes gradients."""
    backbone = load_backbone(inspect_backbone(str(folder)), compute_dtype="float32", learns=True)
    assert backbone.products == torch.float32
    return backbone


def attached(name, model):
    """Attach a method to a model, and return what it trains."""
    method = parse("method", name, METHODS)
    return dict(method.attach(model, torch.Generator().manual_seed(0)))


@torch.no_grad()
def states(model):
    """Return all layers of a transformers model."""
    return model.eval()(IDS, output_hidden_states=True).hidden_states


def check_states(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-5)


def predicted(record, split="dev"):
    """Return what a run predicted for each example of a split."""
    table = pq.read_table(record.predictions, columns=["split", "predicted"]).to_pylist()
    return [row["predicted"] for row in table if row["split"] == split]
