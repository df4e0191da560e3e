"""Random weights in half precision: what is no weight stays as in a pretrained model."""

import pytest
import torch

from probekit.backbone import inspect_backbone
from probekit.backbone.loading import draw_model, load_model
from tests.random_models import save_random

GROUPED = {"num_key_value_heads": 2, "head_dim": 8}


@pytest.mark.parametrize(
    ("family", "options"), [("gemma3_text", GROUPED), ("modernbert", {"pad_token_id": 1})]
)
def test_buffers_are_those_of_a_pretrained_model(family, options, tmp_path):
    dtype = torch.bfloat16
    inspection = inspect_backbone(str(save_random(family, tmp_path, tokenizer="gpt2", **options)))
    drawn, loaded = draw_model(inspection, dtype, 3), load_model(inspection, dtype)
    found, expected = dict(drawn.named_buffers()), dict(loaded.named_buffers())
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert torch.equal(found[name], value), name
    assert {p.dtype for p in drawn.parameters()} == {p.dtype for p in loaded.parameters()}


def test_the_seed_decides_in_every_dtype(tmp_path):
    folder = save_random("qwen3", tmp_path, tokenizer="gpt2", **GROUPED)
    inspection = inspect_backbone(str(folder))
    exact = dict(draw_model(inspection, torch.float32, 3).named_parameters())
    for name, value in draw_model(inspection, torch.bfloat16, 3).named_parameters():
        assert torch.equal(value, exact[name].bfloat16()), name
    other = dict(draw_model(inspection, torch.float32, 4).named_parameters())
    assert not torch.equal(other["embed_tokens.weight"], exact["embed_tokens.weight"])
