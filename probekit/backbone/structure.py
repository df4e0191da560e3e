"""Read a model's structure from its modules: where the last layer comes from, who sees whom.

The modules may lie on torch's ``meta`` device, where a model of any size costs nothing.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from probekit.backbone.quiet import no_warnings
from probekit.backbone.unchanged import unchanged

_FINAL_NORM_NAMES = (
    "norm", "final_norm", "final_layer_norm", "final_layernorm", "ln_f", "norm_f", "ln",
    "layer_norm", "embedding_norm",
)  # fmt: skip
_BIDIRECTIONAL = ("xlnet",)
"""Listed by transformers as a causal language model only, but reads both ways without a mask."""


def is_causal(model: PreTrainedModel, config: PretrainedConfig) -> bool:
    """Say whether a position sees only earlier positions.

    Attention modules say so themselves; a family whose modules do not (BLOOM, Mamba) is causal if
    transformers has it as a causal language model and not as a masked one.
    """
    flags = {module.is_causal for module in model.modules() if hasattr(module, "is_causal")}
    if flags:
        return True in flags
    kind = config.model_type
    return (
        kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and kind not in _BIDIRECTIONAL
    )


def position_limit(model: PreTrainedModel, config: PretrainedConfig) -> int | None:
    """Return how many positions the model can number, or None if there is no limit.

    RoBERTa and its kin count from the padding id, so 514 rows of position embeddings number 512
    positions.
    """
    for name, module in model.named_modules():
        if (
            "position" in name
            and isinstance(module, nn.Embedding)
            and module.padding_idx is not None
        ):
            return module.num_embeddings - module.padding_idx - 1
    for attribute in ("max_position_embeddings", "max_seq_len", "seq_length"):
        limit = config.to_dict().get(attribute) or getattr(config, attribute, None)
        if isinstance(limit, int) and limit > 0:
            return limit
    return None


def embedding_rows(model: PreTrainedModel) -> int:
    """Return how many token ids the model has an embedding for."""
    weight = model.get_input_embeddings().weight
    assert isinstance(weight, Tensor)
    return weight.shape[0]


def final_norm_name(model: PreTrainedModel) -> str | None:
    """Return the name of the norm that makes the last layer, or None if the last block makes it.

    The model is run on three tokens to see which module works last, and stays as it was. A few
    families cannot run on the ``meta`` device (their masks read values); for these the module's
    name decides, and ``model.load_backbone`` looks again once the weights are there.
    """
    device = model.get_input_embeddings().weight.device  # XLNet keeps another weight elsewhere
    assert isinstance(device, torch.device)
    ids = torch.ones(1, 3, dtype=torch.long, device=device)
    for mask in (None, torch.ones_like(ids)):
        last: list[str] = []
        handles = [
            module.register_forward_hook(_recorder(last, name))
            for name, module in model.named_modules()
            if _computes(module)
        ]
        try:
            with torch.no_grad(), no_warnings(), unchanged(model):
                model(input_ids=ids, attention_mask=mask)
        except (RuntimeError, NotImplementedError):
            if device.type != "meta":
                raise
            continue
        finally:
            for handle in handles:
                handle.remove()
        return None if in_block(last[-1]) else last[-1]
    return _norm_by_name(model)


def in_block(name: str) -> bool:
    """Say whether a module lies inside a block: inside an element of some ``ModuleList``."""
    return any(part.isdigit() for part in name.split("."))


def _recorder(last: list[str], name: str) -> Callable[..., None]:
    def record(module: nn.Module, arguments: object, output: object) -> None:
        last.append(name)

    return record


def _computes(module: nn.Module) -> bool:
    """Leaves with parameters, and norms without any (OLMo's)."""
    leaf = next(module.children(), None) is None
    own = next(module.parameters(recurse=False), None) is not None
    return leaf and (own or "norm" in type(module).__name__.lower())


def _norm_by_name(model: PreTrainedModel) -> str | None:
    for name, module in model.named_modules():
        outside = not in_block(name) and "embeddings" not in name
        if outside and name.rpartition(".")[2] in _FINAL_NORM_NAMES and _computes(module):
            return name
    return None
