"""Entries of a model's configuration: which of them change what it computes, and which differ."""

from collections.abc import Collection, Mapping
from typing import Any

PROVENANCE = frozenset(
    {
        "_name_or_path", "architectures", "auto_map", "dtype", "id2label", "label2id",
        "num_labels", "problem_type", "task_specific_params", "torch_dtype",
        "transformers_version",
    }
)  # fmt: skip
"""Where a model came from, how its weights are stored, and what its heads were for."""

OUTPUTS = frozenset(
    {
        "output_attentions", "output_hidden_states", "return_dict", "tie_word_embeddings",
        "use_cache",
    }
)  # fmt: skip
"""What a forward pass returns besides hidden states, and how an output head is stored."""


def without(config: Mapping[str, Any], idle: Collection[str]) -> dict[str, Any]:
    """Return a configuration without idle entries, and without private ones."""
    return {
        name: value
        for name, value in config.items()
        if name not in idle and not name.startswith("_")
    }


def differing_entries(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    """Return the names of entries that both configurations have, with different values.

    What only one of them has may come from another version of transformers.
    """
    return sorted(name for name in one.keys() & two.keys() if one[name] != two[name])
