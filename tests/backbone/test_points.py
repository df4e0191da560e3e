"""Points of blocks in families that nest them in every way, each against hooks set by hand."""

import re

import pytest
import torch
from transformers import AutoConfig, AutoModel

from probekit.backbone.forward import quiet_transformers
from probekit.backbone.points import captured, check_points, find_points
from probekit.errors import BackboneError
from tests import random_models

SIZES = random_models.SIZES | {"vocab_size": 60, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {"num_key_value_heads": 2}
BERT = ("attention.output.dense", "output.dense")
LLAMA = ("self_attn.o_proj", "mlp.down_proj")
GPT2 = ("attn.c_proj", "mlp.c_proj")
# family -> (what its configuration needs, last linear layers of attention and feed-forward part)
FAMILIES = {
    "bert": ({}, *BERT),
    "roberta": ({"pad_token_id": 1}, *BERT),
    "deberta-v2": ({"relative_attention": True}, *BERT),
    "electra": ({"embedding_size": 32}, *BERT),
    "esm": ({}, *BERT),
    "rembert": ({"input_embedding_size": 16}, *BERT),
    "megatron-bert": ({}, *BERT),
    "roberta-prelayernorm": ({}, *BERT),
    "mpnet": ({}, "attention.attn.o", "output.dense"),
    "distilbert": (
        {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48}, "attention.out_lin", "ffn.lin2",
    ),
    "modernbert": ({"cls_token_id": 1, "sep_token_id": 2}, "attn.Wo", "mlp.Wo"),
    "gpt2": ({"n_positions": 64}, *GPT2),
    "openai-gpt": ({"n_positions": 64}, *GPT2),
    "gpt_bigcode": ({"n_embd": 32, "n_layer": 3, "n_head": 4}, *GPT2),
    "opt": ({"ffn_dim": 48, "word_embed_proj_dim": 32}, "self_attn.out_proj", "fc2"),
    "xglm": (
        {"d_model": 32, "num_layers": 3, "attention_heads": 4, "ffn_dim": 48},
        "self_attn.out_proj", "fc2",
    ),
    "biogpt": ({}, "self_attn.out_proj", "fc2"),
    "bloom": ({"n_head": 4}, "self_attention.dense", "mlp.dense_4h_to_h"),
    "falcon": ({}, "self_attention.dense", "mlp.dense_4h_to_h"),
    "gpt_neox": ({}, "attention.dense", "mlp.dense_4h_to_h"),
    "gptj": (
        {"n_embd": 32, "n_layer": 3, "n_head": 4, "rotary_dim": 4}, "attn.out_proj", "mlp.fc_out",
    ),
    "gpt_neo": (
        {"num_heads": 4, "num_layers": 3, "attention_types": [[["global"], 3]]},
        "attn.attention.out_proj", "mlp.c_proj",
    ),
    "mpt": ({"d_model": 32, "n_heads": 4, "n_layers": 3}, "attn.out_proj", "ffn.down_proj"),
    "ctrl": (
        {"n_embd": 32, "n_layer": 3, "n_head": 4, "dff": 48}, "multi_head_attention.dense", "ffn.2",
    ),
    "phi": ({}, "self_attn.dense", "mlp.fc2"),
    "llama": (GROUPED, *LLAMA),
    "mistral": (GROUPED, *LLAMA),
    "qwen3": ({**GROUPED, "head_dim": 8}, *LLAMA),
    "cohere": ({}, *LLAMA),
    "bitnet": (GROUPED, *LLAMA),
    "starcoder2": (GROUPED, "self_attn.o_proj", "mlp.c_proj"),
    "gemma2": ({**GROUPED, "head_dim": 8}, *LLAMA),
    "olmo2": ({}, *LLAMA),
    "granite": ({**GROUPED, "residual_multiplier": 0.4}, *LLAMA),
}  # fmt: skip
NORMS_LAST = {
    "bert", "roberta", "deberta-v2", "electra", "rembert", "mpnet", "distilbert",
                  "openai-gpt"
}  # fmt: skip
"""Families whose blocks end in a norm; the others add what attention and feed-forward part made."""

ADDED_NORMED = {
    "gemma2": ("post_attention_layernorm", "post_feedforward_layernorm"),
    "olmo2": ("post_attention_layernorm", "post_feedforward_layernorm"),
}
"""Modules whose output is added to the stream, where a norm follows the linear layer."""


def config_of(family, options):
    given = {name: size for name, size in {**SIZES, **options}.items() if size is not None}
    return AutoConfig.for_model(family, **given)


def model_of(config):
    with torch.random.fork_rng(devices=[]), quiet_transformers(), torch.no_grad():
        torch.manual_seed(0)
        model = AutoModel.from_config(config).eval()
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


def block_modules(model, name):
    """Return the modules of a name in all blocks, in their order."""
    path = re.compile(rf"(.*\.)?\d+\.{re.escape(name)}")
    return [part for found, part in model.named_modules() if path.fullmatch(found)]


@pytest.mark.parametrize("family", FAMILIES)
def test_points_are_what_hooks_by_hand_see(family):
    options, attention, feed = FAMILIES[family]
    config = config_of(family, options)
    model, places = model_of(config), find_points(family, config)
    assert set(places) == {"attn_out", "mlp_out", "z", "mlp_act"}
    read, made = {}, {}

    def note(point, inner, module, given, output):
        read.setdefault(inner, []).append(given[0].clone())
        made.setdefault(point, []).append(output.clone())

    normed = ADDED_NORMED.get(family, (attention, feed))
    for point, inner, linear, added in zip(
        ("attn_out", "mlp_out"), ("z", "mlp_act"), (attention, feed), normed, strict=True
    ):
        assert len(block_modules(model, linear)) == config.num_hidden_layers
        for module in block_modules(model, linear):
            module.register_forward_hook(
                lambda m, given, out, point=point, inner=inner: note(point, inner, m, given, out)
            )
        if added != linear:
            for module in block_modules(model, added):
                module.register_forward_hook(
                    lambda m, given, out, point=point: made.setdefault(
                        f"{point} normed", []
                    ).append(out.clone())
                )
    layers = range(1, config.num_hidden_layers + 1)
    ids = torch.arange(20, 30).view(2, 5)
    with (
        torch.no_grad(),
        quiet_transformers(),
        captured(model, places, dict.fromkeys(places, layers)) as caught,
    ):
        states = model(input_ids=ids, output_hidden_states=True).hidden_states
    assert len(caught) == 4 * len(layers)
    scale = options.get("residual_multiplier", 1.0)
    for layer in layers:
        for point, inner in (("attn_out", "z"), ("mlp_out", "mlp_act")):
            wanted = made.get(f"{point} normed", made[point])[layer - 1] * scale
            found = caught[point, layer]
            assert torch.equal(found.reshape(wanted.shape), wanted)
            inside = read[inner][layer - 1]
            assert torch.equal(caught[inner, layer].reshape(inside.shape), inside)
            assert places[inner].width == inside.shape[-1]
        if family not in NORMS_LAST and layer < len(layers):  # the last layer may be normed
            added = caught["attn_out", layer] + caught["mlp_out", layer].reshape(2, 5, -1)
            torch.testing.assert_close(
                states[layer - 1] + added, states[layer], rtol=1e-4, atol=1e-4
            )
    mixed = family == "bitnet"  # a norm over all heads stands before its last linear layer
    assert places["z"].heads == (None if mixed else config.num_attention_heads)


@pytest.mark.parametrize(
    ("family", "options", "has"),
    [
        ("mixtral", {**GROUPED, "num_local_experts": 2, "head_dim": 8}, "attn_out, mlp_out, z"),
        ("mamba", {}, None),
        ("fnet", {}, None),
        ("albert", {"embedding_size": 16}, None),
        (
            "xlnet",
            {
                "d_model": 32,
                "n_layer": 3,
                "n_head": 4,
                "d_inner": 48,
                "max_position_embeddings": None,
            },
            None,
        ),
    ],
)
def test_what_is_not_proven_is_refused(family, options, has):
    """Experts have no single last linear layer. The others have no attention, or no plain list of
    blocks in batch-first order.
    """
    places = find_points(family, config_of(family, options))
    with pytest.raises(
        BackboneError, match=r"no single module gives mlp_act \(.*Leave it out"
    ) as caught:
        check_points("m", places, ("resid_post", "mlp_act"))
    assert str(caught.value).endswith(f"available: resid_post{f', {has}' if has else ''}.")
    check_points("m", places, ("resid_post",))


@pytest.mark.parametrize(
    ("family", "options", "attention"),
    [("bert", {}, "attention.self.value"), ("llama", GROUPED, "self_attn.v_proj")],
)
def test_the_parts_of_z_are_attention_heads(family, options, attention):
    """Each is what its head's probabilities make of its values, which heads may share."""
    config = config_of(family, options)
    config._attn_implementation = "eager"
    model, places, values = model_of(config), find_points(family, config), []
    block_modules(model, attention)[1].register_forward_hook(
        lambda module, given, out: values.append(out)
    )
    ids = torch.arange(20, 30).view(2, 5)
    with torch.no_grad(), captured(model, places, {"z": [2]}) as caught:
        probabilities = model(input_ids=ids, output_attentions=True).attentions[1]
    n_heads, width = places["z"].heads, 32 // places["z"].heads
    shared = n_heads * width // values[0].shape[-1]
    for head in range(n_heads):
        columns = slice(head // shared * width, (head // shared + 1) * width)
        expected = probabilities[:, head] @ values[0][..., columns]
        found = caught["z", 2][..., head * width : (head + 1) * width]
        torch.testing.assert_close(found, expected)


def test_a_point_that_middle_blocks_lack_is_left_out():
    """The small copy has the first and the last block alone, and here the first ones are dense."""
    options = {
        "first_k_dense_replace": 2, "n_routed_experts": 4, "num_experts_per_tok": 1, "n_group": 1,
        "topk_group": 1, "moe_intermediate_size": 16, "q_lora_rank": 16, "kv_lora_rank": 16,
        "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "num_hidden_layers": 4,
    }  # fmt: skip
    places = find_points("deepseek_v3", config_of("deepseek_v3", options))
    assert {"attn_out", "mlp_out", "z"} == set(places)
    assert places["mlp_out"].module == "mlp"
