"""Build a model of the backbone's family that is nothing but n fresh blocks."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from probekit.base.numbers.seeding import seeded
from probekit.probe.heads.blocks.block_configuration import block_config
from probekit.probe.heads.blocks.stack import BlockStack

_FINAL_NORMS = ("norm", "final_layernorm", "final_layer_norm", "ln_f")


class _Given(nn.Module):
    """Embeddings that hand on the states they are given."""

    def forward(
        self, *arguments: Any, inputs_embeds: Tensor | None = None, **options: Any
    ) -> Tensor:
        # DistilBERT passes ids and states by position.
        return arguments[1] if inputs_embeds is None else inputs_embeds


class _Zero(nn.Module):
    """Position embeddings that add nothing."""

    def forward(self, position_ids: Tensor) -> Tensor:
        return torch.zeros((), device=position_ids.device)


def build_blocks(config: Mapping[str, Any], n: int, generator: torch.Generator) -> BlockStack:
    """Return n fresh blocks of the backbone's own class, with what they need beside them.

    transformers builds the whole model from the configuration; its embeddings, final norm and
    pooler are then taken out. So attention masks, rotary embeddings and MPNet's relative position
    bias (a parameter of its own here) are the family's, and so is the start of every weight.

    Args:
        config: the backbone's configuration, as its ``config.json`` holds it.
        n: number of blocks, 1 or more.
        generator: decides the weights, on the CPU; the global one is left as it was.

    Raises:
        OptionError: not one of ``FAMILIES``, or a configuration that transformers refuses.
    """
    made = block_config(config, n)
    seed = int(torch.randint(2**62, (1,), generator=generator, device="cpu"))
    with seeded(seed):
        model = _whole_model(made)
    _strip(model)
    return BlockStack(model, made.hidden_size)


def _whole_model(config: Any) -> nn.Module:
    from transformers import AutoModel
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    able = getattr(MODEL_MAPPING[type(config)], "_supports_sdpa", False)
    make: Any = AutoModel.from_config
    model: nn.Module = make(
        config, dtype=torch.float32, attn_implementation="sdpa" if able else "eager"
    )
    return model


def _strip(model: Any) -> None:
    """Take out embeddings, final norm and pooler."""
    if hasattr(model, "embeddings"):
        model.embeddings = _Given()
    else:
        model.set_input_embeddings(nn.Identity())
    if hasattr(model, "wpe"):
        model.wpe = _Zero()
    if hasattr(model, "pooler"):
        model.pooler = None
    for name in _FINAL_NORMS:
        if hasattr(model, name):
            setattr(model, name, nn.Identity())
