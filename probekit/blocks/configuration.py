"""A backbone's configuration, cut to n blocks."""

from collections.abc import Mapping
from typing import Any

from probekit.errors import OptionError

FAMILIES = (
    "bert", "camembert", "cohere", "deberta-v2", "distilbert", "ernie", "falcon", "gemma",
    "gemma2", "gemma3_text", "gpt2", "gpt_neox", "gptj", "granite", "llama", "mistral", "mpnet",
    "olmo", "olmo2", "phi3", "qwen2", "qwen3", "roberta", "stablelm", "xlm-roberta",
)  # fmt: skip
"""Kinds of models (``model_type``) whose blocks stand alone; the tests prove it for each one.

A family fits if it is a stack of equal blocks, and runs from ``inputs_embeds``. ModernBERT (its
first block has no norm), ALBERT (one shared block) and GPT-Neo (kinds alternate) do not fit.
"""

_ELSEWHERE = frozenset(
    {
        "_name_or_path", "architectures", "auto_map", "bos_token_id", "cls_token_id", "dtype",
        "eos_token_id", "id2label", "label2id", "mask_token_id", "num_labels",
        "output_attentions", "output_hidden_states", "pad_token_id", "problem_type",
        "quantization_config", "return_dict", "sep_token_id", "task_specific_params",
        "tie_word_embeddings", "torch_dtype", "transformers_version", "unk_token_id", "use_cache",
        "vocab_size",
    }
)  # fmt: skip
"""Entries that do not shape a block: where a model came from, how it is stored, which tokens it
knows, what it is for."""


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
            f"({' '.join(str(error).split())[:200]})."
        ) from error
    kinds = getattr(made, "layer_types", None)
    if kinds:
        made.layer_types = (list(kinds) * n)[-n:]
    made.num_hidden_layers = n
    made.vocab_size, made.pad_token_id = 2, 0  # MPNet's padding is always 1
    made.use_cache = False
    return made
