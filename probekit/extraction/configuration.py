"""What a model's configuration adds to its weights: the same weights may compute something else.

The key of an entry hashes weights and tokenizer, so that copies of a model share it. A copy whose
configuration was edited (rope scaling, an epsilon, the longest input) computes other numbers from
the same weights; these checks keep such numbers from being taken for each other.
"""

import json
from collections.abc import Mapping
from typing import Any

from probekit.backbone import Inspection, plain_config
from probekit.errors import EntryError
from probekit.store.entry import Entry

# What says where a model came from, what its heads are for, or how it is loaded, or is only used
# in training.
_IDLE = {
    "architectures",
    "dtype",
    "torch_dtype",
    "transformers_version",
    "id2label",
    "label2id",
    "problem_type",
    "use_cache",
    "return_dict",
    "output_hidden_states",
    "output_attentions",
    "initializer_range",
    "tie_word_embeddings",
}


def computing_options(inspection: Inspection) -> dict[str, Any]:
    """Return the options of a model's configuration that its forward pass may depend on."""
    options = _relevant(plain_config(inspection.config))
    return options | {"longest input": inspection.info.max_length}


def check_configuration(entry: Entry, inspection: Inspection) -> None:
    """Refuse an entry that another configuration of the same weights made.

    Options that only one of the two has, as after an upgrade of transformers, are not compared.

    Raises:
        EntryError: an option differs; the message names each with both values.
    """
    made = _relevant(json.loads((entry.backbone / "config.json").read_text("utf-8")))
    made["longest input"] = entry.manifest.model_info["max_length"]
    now = computing_options(inspection)
    differing = [name for name in sorted(made.keys() & now.keys()) if made[name] != now[name]]
    if differing:
        changes = ", ".join(f"{name} {made[name]!r} is now {now[name]!r}" for name in differing)
        raise EntryError(
            f"{entry.path} was made from the same weights under another configuration: {changes}. "
            "Restore it, choose another --cache, or replace the entry with --overwrite."
        )


def _relevant(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in config.items()
        if name not in _IDLE and not name.startswith("_")
    }
