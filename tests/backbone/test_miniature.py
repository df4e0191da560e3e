"""Small copies of models: few blocks of every kind, the model's own width, the same answers."""

import pytest
import torch
from torch import nn
from transformers import AutoConfig

from probekit.backbone import miniature
from probekit.backbone.miniature import build_miniature, few_blocks
from probekit.backbone.structure import read_structure
from probekit.errors import BackboneError

GEMMA = {"num_hidden_layers": 12, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16}
GEMMA |= {"num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 5000}


def test_the_first_block_of_every_kind_and_the_last():
    config = AutoConfig.for_model("gemma3_text", **GEMMA)
    assert config.layer_types.index("full_attention") == 5
    few = few_blocks(config)  # 0, 5 and 11
    assert few.num_hidden_layers == 3
    assert few.layer_types == ["sliding_attention", "full_attention", "full_attention"]
    assert config.num_hidden_layers == len(config.layer_types) == 12
    assert few_blocks(AutoConfig.for_model("bert")).num_hidden_layers == 2


def test_a_copy_is_small_and_of_the_models_width():
    model = build_miniature(AutoConfig.for_model("gemma3_text", **GEMMA))
    assert len(model.layers) == 3 and model.get_input_embeddings().weight.shape == (128, 64)
    assert all(parameter.ne(0).any() for parameter in model.parameters())


@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_facts_are_of_the_whole_model(blocks):
    config = AutoConfig.for_model("gemma3_text", **GEMMA | {"num_hidden_layers": blocks})
    found = read_structure("gemma", config)
    assert (found.n_blocks, found.dim, found.causal) == (blocks, 64, True)
    assert found.final_norm == "norm" and found.usable == list(range(blocks + 1))


def test_a_small_model_that_cannot_be_cut_is_copied_whole():
    """Zamba 2 lists the numbers of its hybrid blocks."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 4, "vocab_size": 60, "intermediate_size": 48}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 4, "attention_hidden_size": 64}
    sizes |= {"attention_head_dim": 16, "kv_channels": 8, "num_query_groups": 4}
    sizes |= {"mamba_headdim": 16, "n_mamba_heads": 4, "mamba_d_state": 8}
    kinds = {"layers_block_type": ["linear_attention", "hybrid"] * 2, "hybrid_layer_ids": [1, 3]}
    config = AutoConfig.for_model("zamba2", **sizes, **kinds)
    assert len(build_miniature(config).layers) == 4
    assert read_structure("zamba", config).causal


def test_every_tensor_has_the_next_turn_of_one_noise():
    """A weight larger than the noise has it again from the start."""
    sizes = (7, miniature._NOISE + 5, 30)
    model = nn.ParameterList(nn.Parameter(torch.zeros(n), requires_grad=False) for n in sizes)
    torch.manual_seed(1)
    miniature.shake(model)
    torch.manual_seed(1)
    noise = torch.randn(miniature._NOISE)
    for turns, (size, found) in enumerate(zip(sizes, model, strict=True), 1):
        expected = torch.cat([noise.roll(7919 * turns)] * 2)[:size]
        assert torch.equal(found, torch.zeros(size).add(expected, alpha=0.1))


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("bert", {"hidden_size": 2**14, "num_attention_heads": 16}),
        ("gpt_neo", {"max_position_embeddings": 2**16}),  # masks as buffers
    ],
)
def test_no_memory_is_taken_for_a_copy_that_does_not_fit(kind, sizes, monkeypatch):
    monkeypatch.setattr(miniature, "available_memory", lambda: 2**31)
    built = []
    monkeypatch.setattr(miniature, "shake", built.append)
    with pytest.raises(BackboneError, match=r"a copy with few blocks takes \d.* are free"):
        read_structure(kind, AutoConfig.for_model(kind, **sizes))
    assert not built
