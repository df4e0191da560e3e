"""A backbone's configuration, cut to n blocks."""

from collections.abc import Mapping
from typing import Any

from probekit.errors import OptionError, reason_of
from probekit.probe.model_parts.kept import OUTPUTS, PROVENANCE

FAMILIES = (
    "bert", "camembert", "cohere", "deberta-v2", "distilbert", "ernie", "falcon", "gemma",
    "gemma2", "gemma3_text", "gpt2", "gpt_neox", "gptj", "granite", "llama", "mistral", "mpnet",
    "olmo", "olmo2", "phi3", "qwen2", "qwen3", "roberta", "stablelm", "xlm-roberta",
)  # fmt: skip
"""Kinds of models (``model_type``) whose blocks stand alone; the tests prove it for each one.

A family fits if it is a stack of equal blocks, and runs from ``inputs_embeds``. ModernBERT (its
first block has no norm), ALBERT (one shared block) and GPT-Neo (kinds alternate) do not fit.
"""

_TOKENS = {
    "bos_token_id", "cls_token_id", "eos_token_id", "mask_token_id", "pad_token_id",
    "sep_token_id", "unk_token_id", "vocab_size",
}  # fmt: skip
_ELSEWHERE = PROVENANCE | OUTPUTS | _TOKENS | {"quantization_config"}
"""Entries that do not shape a block; its weights are float32 whatever the backbone's are."""


def essential(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without what does not shape a block.

    Two copies of one model give the same, wherever they lie. (Another version of transformers may
    have further entries.)
    """
    return {name: value for name, value in config.items() if name not in _ELSEWHERE}


def block_config(config: Mapping[str, Any], n: int) -> Any:
    """Return transformers' configuration of a model of the same kind with n blocks.

    Where blocks differ by depth (sliding and full attention), these are the kinds of the last n.
    Its embeddings are as small as possible, since nobody uses them.

    Raises:
        OptionError: not one of ``FAMILIES``, or transformers refuses the configuration.
    """
    from transformers import AutoConfig

    options = essential(config)
    family = str(options.pop("model_type", ""))
    if family not in FAMILIES:
        raise OptionError(
            f"extra-layers: a backbone of the family {family or 'unknown'!r} cannot lend its "
            f"blocks; these can: {', '.join(FAMILIES)}."
        )
    try:
        made = AutoConfig.for_model(family, **options)
    except Exception as error:  # every configuration class has its own errors
        raise OptionError(
            f"extra-layers: transformers cannot read this {family} backbone's configuration "
            f"({reason_of(error)})."
        ) from error
    kinds = getattr(made, "layer_types", None)
    if kinds:
        made.layer_types = (list(kinds) * n)[-n:]
    made.num_hidden_layers = n
    made.vocab_size, made.pad_token_id = 2, 0  # MPNet's padding is always 1
    made.use_cache = False
    return made
