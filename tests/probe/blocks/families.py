"""A tiny random model of every family in ``FAMILIES``."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedModel

DIM, LAYERS = 32, 3

_SIZES = {
    "hidden_size": DIM, "intermediate_size": 64, "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
}  # fmt: skip
_DECODER = _SIZES | {"num_key_value_heads": 2, "head_dim": 8}
_GPT = {"n_embd": DIM, "n_layer": LAYERS, "n_head": 4, "n_inner": 64}

CONFIGS: dict[str, dict[str, Any]] = {
    "bert": _SIZES,
    "camembert": _SIZES,
    "cohere": _DECODER,
    "deberta-v2": _SIZES
    | {"relative_attention": True, "position_buckets": 4, "norm_rel_ebd": "layer_norm"}
    | {"share_att_key": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0},
    "distilbert": {"dim": DIM, "hidden_dim": 64, "n_layers": LAYERS, "n_heads": 4},
    "ernie": _SIZES,
    "falcon": _SIZES,
    "gemma": _DECODER,
    "gemma2": _DECODER | {"sliding_window": 4},
    "gemma3_text": _DECODER | {"sliding_window": 4, "sliding_window_pattern": 3},
    "gpt2": _GPT,
    "gpt_neox": _SIZES,
    "gptj": _GPT | {"rotary_dim": 4},
    "granite": _DECODER | {"embedding_multiplier": 12.0, "residual_multiplier": 0.22},
    "llama": _DECODER,
    "mistral": _DECODER | {"sliding_window": 4},
    "mpnet": _SIZES,
    "olmo": _DECODER,
    "olmo2": _DECODER,
    "phi3": _DECODER,
    "qwen2": _DECODER | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    "qwen3": _DECODER,
    "roberta": _SIZES,
    "stablelm": _DECODER,
    "xlm-roberta": _SIZES,
}
_IDS = {"vocab_size": 60, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}


def tiny_model(family: str, seed: int = 0) -> PreTrainedModel:
    """Return a random model whose every parameter matters (biases and norms away from 0 and 1)."""
    config = AutoConfig.for_model(family, **CONFIGS[family], **_IDS)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        model = AutoModel.from_config(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    assert sum(p.numel() for p in model.parameters()) < 200_000
    return model


def block_list(model: nn.Module) -> tuple[str, nn.ModuleList]:
    """Return the first list of modules, which is that of the blocks, and its name."""
    return next((k, m) for k, m in model.named_modules() if isinstance(m, nn.ModuleList))


def last_block(model: PreTrainedModel, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Run a padded batch of random text; return hidden_states[L-1] and the last block's output.

    Both hold the real subwords of all windows, one after the other.
    """
    time = int(lengths.max())
    generator = torch.Generator().manual_seed(9)
    ids = torch.randint(4, 60, (len(lengths), time), generator=generator)
    mask = torch.arange(time) < lengths[:, None]
    ids = ids.masked_fill(~mask, 1)
    kept: list[Tensor] = []
    _, blocks = block_list(model)
    handle = blocks[-1].register_forward_hook(
        lambda module, given, out: kept.append(out[0] if isinstance(out, tuple) else out)
    )
    with torch.no_grad():
        output = model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True)
    handle.remove()
    assert len(output.hidden_states) == len(blocks) + 1
    return output.hidden_states[-2][mask], kept[0][mask]


def lend_last_block(model: PreTrainedModel, stack: nn.Module) -> None:
    """Copy the weights of the last block, and those beside the blocks, into a stack of one."""
    prefix, blocks = block_list(model)
    _, mine = block_list(stack)
    assert len(mine) == 1
    mine[0].load_state_dict(blocks[-1].state_dict())
    theirs = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in stack.model.named_parameters():
            if not name.startswith(f"{prefix}."):
                parameter.copy_(theirs[name])
