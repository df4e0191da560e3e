"""A model that was tried is the model that it was."""

import pytest
import torch
from torch import nn

from probekit.backbone import inspect_backbone, load_backbone
from probekit.backbone.forward import hidden_states, unchanged
from probekit.backbone.loading import load_model
from probekit.errors import BackboneError
from tests.random_models import save_family

DYNAMIC = {
    "rope_parameters": {
        "rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4,
        "original_max_position_embeddings": 16,
    }
}  # fmt: skip
SPARSE = {"block_size": 20, "max_position_embeddings": 160}  # beyond seven blocks
FAMILIES = [("big_bird", SPARSE), ("llama", DYNAMIC)]


@pytest.fixture
def inspected(tmp_path):
    return lambda family, options: inspect_backbone(
        save_family(family, tmp_path / family, **options)
    )


def contents(model):
    """Return everything that a model holds, by name: tensors as values, the rest as it prints."""
    found = {name: type(module).__name__ for name, module in model.named_modules()}
    found |= {f"config.{name}": repr(value) for name, value in vars(model.config).items()}
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, str | int | float):
                found[f"{prefix}.{name}"] = value
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    return found, {name: tensor.clone() for name, tensor in tensors.items()}


@pytest.mark.parametrize(("family", "options"), FAMILIES, ids=lambda value: str(value)[:8])
def test_a_forward_pass_leaves_a_model_as_it_was(inspected, family, options):
    inspection = inspected(family, options)
    model = load_model(inspection, torch.float32)
    hidden_states("a model", model, torch.full((1, 5), 9))  # transformers' own hooks come, and stay
    before, tensors = contents(model)
    for length in (3, inspection.info.identity.max_length):
        hidden_states("a model", model, torch.full((1, length), 9))
    after, now = contents(model)
    assert after == before and now.keys() == tensors.keys()
    assert all(torch.equal(now[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize(("family", "options"), FAMILIES, ids=lambda value: str(value)[:8])
def test_states_do_not_depend_on_what_ran_before(inspected, family, options):
    backbone = load_backbone(inspected(family, options))

    def run(length):
        ids = torch.randint(5, 99, (1, length), generator=torch.Generator().manual_seed(length))
        return torch.stack(backbone.layers(ids, torch.tensor([length])))

    longest = backbone.info.identity.max_length
    first = {length: run(length) for length in (longest, 24, 6)}
    for length in (6, longest, 24, 6, 24, longest):
        assert torch.equal(run(length), first[length])


def test_a_text_that_gets_more_rows_than_subwords_is_refused(inspected):
    backbone = load_backbone(inspected("big_bird", SPARSE))
    assert backbone.batching.padded_to == 20
    with pytest.raises(
        BackboneError, match=r"layer 0 has the shape \(1, 160, 32\), expected \(1, 150,"
    ):
        backbone.layers(torch.full((1, 150), 9), torch.tensor([150]))


class Fickle(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.kind = nn.Linear(2, 2), "sparse"
        self.register_buffer("scale", torch.ones(1))


def test_what_is_set_replaced_added_or_removed_is_put_back():
    model = Fickle()
    part, scale = model.part, model.scale
    with pytest.raises(KeyError), unchanged(model):
        model.kind, model.extra, model.part = "full", 1, nn.Linear(2, 2)
        model.register_buffer("scale", torch.zeros(1))
        model._output_capturing_hooks_installed = True
        raise KeyError
    assert model.kind == "sparse" and model.part is part and model.scale is scale
    assert not hasattr(model, "extra")
    assert model._output_capturing_hooks_installed, "the hooks themselves stay as well"
