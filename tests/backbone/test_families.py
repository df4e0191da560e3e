"""Families of random models: their structure, and what is no weight in half precision."""

import pytest
import torch
from transformers import AutoConfig, PreTrainedTokenizerFast

from probekit.backbone import inspect_backbone
from probekit.backbone.architecture import build_model
from probekit.backbone.final_parts import read_final_norm
from probekit.backbone.forward import quiet_transformers
from probekit.backbone.inspecting import DEFAULT_LENGTH, longest_input
from probekit.backbone.loading import draw_model, load_model
from probekit.backbone.structure import read_structure
from tests import random_models, tiny

SIZES = random_models.SIZES | {
    "vocab_size": 50, "num_hidden_layers": 2, "max_position_embeddings": 40, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
PLAIN: dict[str, object] = {}
# family -> (what its configuration needs besides SIZES, causal, final norm)
FAMILIES = {
    "bert": (PLAIN, False, False),
    "roberta": ({"pad_token_id": 1}, False, False),
    "ibert": ({"pad_token_id": 1}, False, False),
    "albert": ({"embedding_size": 16}, False, False),
    "deberta-v2": ({"relative_attention": True, "norm_rel_ebd": "layer_norm"}, False, False),
    "megatron-bert": (PLAIN, False, True),
    "modernbert": (PLAIN, False, True),
    "xlnet": (
        {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48, "max_position_embeddings": None},
        False,
        False,
    ),
    "gpt2": ({"n_positions": 40}, True, True),
    "openai-gpt": ({"n_positions": 40}, True, False),
    "opt": ({"ffn_dim": 48, "word_embed_proj_dim": 32}, True, True),
    "bloom": ({"n_head": 4, "max_position_embeddings": None}, True, True),
    "llama": (GROUPED, True, True),
}


def _build(family):
    sizes = {**SIZES, **FAMILIES[family][0]}
    given = {name: size for name, size in sizes.items() if size is not None}
    config = AutoConfig.for_model(family, **given)
    with torch.random.fork_rng(devices=[]), quiet_transformers():
        torch.manual_seed(0)
        model = build_model(config)
        for name, parameter in model.named_parameters():
            if "norm" in name.lower() or "ln_" in name:  # ones and zeros would hide a mistake
                torch.nn.init.normal_(parameter, 0.5, 0.3)
    return config, model


def _states(model, ids):
    ids = torch.tensor([ids])
    with torch.no_grad(), quiet_transformers():
        mask = torch.ones_like(ids)
        return model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states


def _last_block(model):
    names = [name for name, _ in model.named_modules() if any(map(str.isdigit, name.split(".")))]
    blocks = [name for name in names if name.rpartition(".")[2].isdigit()]
    depth = min(name.count(".") for name in blocks)
    last = [name for name in blocks if name.count(".") == depth][-1]
    return model.get_submodule(last)


@pytest.mark.parametrize("family", FAMILIES)
def test_structure_is_what_the_numbers_show(family):
    _, causal, final_norm = FAMILIES[family]
    config, model = _build(family)
    structure = read_structure(family, config)
    outputs = []
    _last_block(model).register_forward_hook(lambda m, a, out: outputs.append(out))
    states = _states(model, [5, 6, 7, 8, 9])
    assert len(states) == config.num_hidden_layers + 1
    assert {state.shape[-1] for state in states} == {config.hidden_size}
    block = outputs[-1][0] if isinstance(outputs[-1], tuple | list) else outputs[-1]

    changed = _states(model, [5, 6, 7, 8, 10])
    seen = not torch.equal(changed[-1][0, 0], states[-1][0, 0])
    assert structure.causal == causal == (not seen)

    if block.shape[0] != 1:  # XLNet works time first
        block = block.transpose(0, 1)
    same = torch.equal(block, states[-1])
    assert (structure.final_norm is not None) == final_norm == (not same)
    if final_norm:
        module = model.get_submodule(structure.final_norm)
        norm = read_final_norm(module, config.hidden_size)
        torch.testing.assert_close(norm(block), states[-1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("family", "usable"),
    [("bert", 40), ("roberta", 38), ("ibert", 38), ("gpt2", 40), ("llama", 40), ("bloom", None)],
)
def test_usable_positions_are_the_most_that_run(family, usable):
    config, model = _build(family)
    inner = tiny.tokenizer_of("bert").backend_tokenizer
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)  # which names no limit
    assert longest_input(family, tokenizer, model, config) == (usable or DEFAULT_LENGTH)
    if family in ("bert", "roberta", "ibert", "gpt2"):
        _states(model, [5] * usable)
        with pytest.raises((IndexError, RuntimeError)):
            _states(model, [5] * (usable + 1))


@pytest.mark.parametrize(
    ("family", "options"), [("gemma3_text", GROUPED), ("modernbert", {"pad_token_id": 1})]
)
def test_buffers_are_those_of_a_pretrained_model(family, options, tmp_path):
    dtype = torch.bfloat16
    inspection = inspect_backbone(
        str(random_models.save_random(family, tmp_path, tokenizer="gpt2", **options))
    )
    drawn, loaded = draw_model(inspection, dtype, 3), load_model(inspection, dtype)
    found, expected = dict(drawn.named_buffers()), dict(loaded.named_buffers())
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert torch.equal(found[name], value), name
    assert {p.dtype for p in drawn.parameters()} == {p.dtype for p in loaded.parameters()}


def test_the_seed_decides_in_every_dtype(tmp_path):
    folder = random_models.save_random("qwen3", tmp_path, tokenizer="gpt2", **GROUPED)
    inspection = inspect_backbone(str(folder))
    exact = dict(draw_model(inspection, torch.float32, 3).named_parameters())
    for name, value in draw_model(inspection, torch.bfloat16, 3).named_parameters():
        assert torch.equal(value, exact[name].bfloat16()), name
    other = dict(draw_model(inspection, torch.float32, 4).named_parameters())
    assert not torch.equal(other["embed_tokens.weight"], exact["embed_tokens.weight"])
