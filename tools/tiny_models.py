"""A tiny random checkpoint, with a tokenizer, of any architecture of transformers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from probekit.backbone.architecture import ENCODER, config_to_read, saved_whole
from probekit.errors import BackboneError

WORDS = (
    *("the", "a", "of", "to", "and", "in", "is", "was", "on", "at", "for", "with", "by", "from"),
    *("it", "he", "she", "they", "we", "you", "this", "that", "not", "but", "or", "as", "be"),
    *("one", "two", "three", "new", "old", "big", "small", "city", "river", "train", "letter"),
    *("village", "choir", "university", "market", "garden", "window", "winter", "summer"),
    *("walked", "wrote", "said", "visited", "won", "lost", "opened", "closed", "found", "kept"),
    *(".", ",", ";", ":", "!", "?"),
)
VOCABULARY = 300
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "<mask>")

WIDTH, BLOCKS, HEADS = 32, 4, 4
_MOST = 30_000_000
"""Parameters of a model that is still tiny: some default of a family was not made small."""

_SIZES = (
    dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim", "out_hidden_size"),
        WIDTH,
    )
    | dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks", "encoder_layers",
         "decoder_layers", "num_encoder_layers", "num_decoder_layers"),
        BLOCKS,
    )
    | dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
         "decoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"),
        HEADS,
    )
    | dict.fromkeys(
        ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner",
         "d_inner", "hidden_dim", "ffn_hidden_size", "feed_forward_size", "inner_dim"),
        48,
    )
    | dict.fromkeys(
        ("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size",
         "kv_lora_rank", "q_lora_rank", "lru_width", "embedding_size", "input_embedding_size",
         "output_embedding_size", "embedding_dim", "time_step_rank"),
        16,
    )
    | dict.fromkeys(
        ("head_dim", "d_kv", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "state_size",
         "linear_key_head_dim", "linear_value_head_dim", "global_head_dim", "rotary_dim",
         "mamba_d_state", "mamba_d_head", "mamba_n_heads", "kv_channels"),
        8,
    )
    | dict.fromkeys(
        ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts",
         "linear_num_value_heads", "num_key_value_heads", "num_global_key_value_heads"),
        4,
    )
    | dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "linear_num_key_heads"), 2)
    | dict.fromkeys(("n_group", "topk_group", "n_shared_experts"), 1)
    | dict.fromkeys(
        ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len",
         "max_encoder_position_embeddings", "max_decoder_position_embeddings"),
        512,
    )
    | dict.fromkeys(("sliding_window", "attention_window_size"), 8)
)  # fmt: skip
"""What the sizes of any family are called, and what they become."""

_WIDTHS = [
    name for name, size in _SIZES.items() if size in (WIDTH, 48, 16, 8) and "window" not in name
]

_TOKENS = {
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "unk_token_id": 3, "mask_token_id": 4,
    "cls_token_id": 1, "sep_token_id": 2, "decoder_start_token_id": 0, "image_token_id": 3,
}  # fmt: skip

_MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
"""Positions of time, height and width share the eight channels of a head."""

_OF_FAMILY: dict[str, dict[str, Any]] = {
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}},
    },
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
        "ffn_config": {"hidden_size": WIDTH, "ffn_hidden_size": 16, "moe_num_experts": 4},
    },
    "falcon_h1": {"mamba_d_ssm": 64, "mamba_n_heads": 8},
    "funnel": {"d_head": 8, "block_sizes": [2, 2], "block_repeats": [1, 1]},
    "gemma3n_text": {
        "num_kv_shared_layers": 0, "intermediate_size": 48, "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": VOCABULARY, "laurel_rank": 8,
        "activation_sparsity_pattern": [0.0] * BLOCKS,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "window_size": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    "mamba2": {"num_heads": 8, "n_groups": 1, "chunk_size": 8},
    "kimi_linear": {"linear_num_heads": 4, "linear_head_dim": 8, "num_experts_per_token": 2},
    "lilt": {"hidden_size": 48},
    "luke": {"entity_vocab_size": 8, "entity_emb_size": 16},
    "opt": {"word_embed_proj_dim": WIDTH},
    "mimo_v2_flash": {"num_attention_heads": 8},
    "neomme": {
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
            for kind in ("full_attention", "sliding_attention")
        },
    },
    **{
        family: {"text_config": {"rope_parameters": _MROPE | {"partial_rotary_factor": 1.0}}}
        for family in ("glm46v", "glm4v", "glm4v_moe", "glm_ocr", "glmga")
    },
    "qwen2_vl": {"text_config": {"rope_parameters": _MROPE}},
    "qwen2_5_vl": {"text_config": {"rope_parameters": _MROPE}},
    "qwen3_vl": {"text_config": {"rope_parameters": _MROPE}},
    "qwen3_vl_moe": {"text_config": {"rope_parameters": _MROPE}},
    "qwen4_exp_text": {"layer_types": ["linear_attention"] * BLOCKS},
    "reformer": {"axial_pos_embds_dim": [16, 16], "axial_pos_shape": [16, 32]},
    "squeezebert": {"embedding_size": WIDTH},
    "xlstm": {"embedding_dim": WIDTH},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "attention_hidden_size": 64, "attention_head_dim": 16, "mamba_dt_rank": 4,
        "layers_block_type": ["linear_attention", "hybrid"] * 2,
    },
    "zamba2": {
        "attention_hidden_size": 64, "attention_head_dim": 16, "kv_channels": 8,
        "mamba_headdim": 16, "n_mamba_heads": 4, "mamba_ngroups": 1, "num_query_groups": 4,
        "layers_block_type": ["linear_attention", "hybrid"] * 2, "hybrid_layer_ids": [1, 3],
    },
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip
"""What single families need besides."""


def tiny_config(family: str, wider: int = 1) -> PretrainedConfig:
    """Return a family's default configuration with small sizes.

    Args:
        family: ``model_type``.
        wider: what all widths are multiplied with.

    Raises:
        Exception: whatever its class raises if it takes none of them.
    """
    kind = CONFIG_MAPPING[family]
    return kind(**_joined(_sizes_of(kind, wider), _OF_FAMILY.get(family, {})))


def _joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return two configurations in one, and of parts that both name, what both say."""
    parts = {
        name: _joined(one[name], value)
        for name, value in other.items()
        if name.endswith("_config") and isinstance(one.get(name), dict)
    }
    return {**one, **other, **parts}


def _sizes_of(kind: type[PretrainedConfig], wider: int = 1) -> dict[str, Any]:
    """Return what a class of configurations has of the sizes, and of parts that have such."""
    known = set(kind().to_dict()) | set(kind.attribute_map)
    if "num_encoder_layers" in known:  # ProphetNet wants those alone
        known -= {"num_hidden_layers"}
    sizes = _SIZES | {name: wider * _SIZES[name] for name in _WIDTHS}
    sizes |= _TOKENS | {"vocab_size": VOCABULARY}
    parts = {
        name: _sizes_of(part)
        for name, part in kind.sub_configs.items()
        if part is not AutoConfig and part().to_dict()
    }
    for name in kind.sub_configs.keys() - parts.keys():  # of any family: that of the default
        usual = getattr(kind(), name, None)
        if isinstance(usual, PretrainedConfig):
            parts[name] = {"model_type": usual.model_type} | _sizes_of(type(usual))
    return parts | {name: size for name, size in sizes.items() if name in known}


def save_tiny(family: str, folder: Path, wider: int = 1) -> None:
    """Save a random model of a family, and a tokenizer of whole words, into a folder.

    Its weights are drawn anew, away from zeros and ones, which would hide what they do. Of models
    that probekit refuses by their configuration none are made.
    """
    config = tiny_config(family, wider)
    tokenizer(family).save_pretrained(folder)
    try:
        config_to_read(family, config, ENCODER if saved_whole(config) else None)
    except BackboneError:
        config.save_pretrained(folder)
        save_file({}, folder / "model.safetensors", metadata={"format": "pt"})
        return
    with torch.device("meta"):
        count = AutoModel.from_config(config).num_parameters()
    if count > _MOST:
        raise ValueError(f"{count:,} parameters, at most {_MOST:,} were expected")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = AutoModel.from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(folder)


_READ_AS_BYTES = ("qwen", "hyperclovax_vision")


def tokenizer(family: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole words, or of bytes for families that are read as such."""
    inner = _of_bytes() if family.startswith(_READ_AS_BYTES) else _of_words()
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    roles = dict(zip(("pad", "bos", "eos", "unk", "mask"), SPECIAL, strict=True))
    named = {f"{role}_token": token for role, token in roles.items()}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **named)


def _of_words() -> Tokenizer:
    made = Tokenizer(models.WordLevel(_numbered(WORDS), unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


def _of_bytes() -> Tokenizer:
    made = Tokenizer(models.BPE(_numbered(sorted(pre_tokenizers.ByteLevel.alphabet())), []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


def _numbered(tokens: Sequence[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate((*SPECIAL, *tokens))}
