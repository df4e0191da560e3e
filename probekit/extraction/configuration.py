"""What a model's configuration adds to its weights: the same weights may compute something else.

The key of an entry hashes weights and tokenizer, so that copies of a model share it. A copy whose
configuration was edited (rope scaling, an epsilon, the longest input) computes other numbers from
the same weights; these checks keep such numbers from being taken for each other.
"""

import json
from collections.abc import Mapping
from typing import Any

from probekit.backbone import Inspection, plain_config
from probekit.configuration import OUTPUTS, PROVENANCE
from probekit.errors import EntryError
from probekit.store.entry import Entry

_IDLE = PROVENANCE | OUTPUTS | {"initializer_range"}


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
