"""What a model's configuration adds to its weights: the same weights may compute something else.

The key of an entry hashes weights and tokenizer, so that copies of a model share it. A copy whose
configuration was edited (rope scaling, an epsilon, the longest input) computes other numbers from
the same weights; these checks keep such numbers from being taken for each other.
"""

import json
from typing import Any

from probekit.backbone import Inspection, plain_config
from probekit.configuration import OUTPUTS, PROVENANCE, differing_entries, without
from probekit.errors import EntryError
from probekit.store.entry import Entry

_IDLE = PROVENANCE | OUTPUTS | {"initializer_range"}


def computing_options(inspection: Inspection) -> dict[str, Any]:
    """Return the options of a model's configuration that its forward pass may depend on."""
    options = without(plain_config(inspection.config), _IDLE)
    return options | {"longest input": inspection.info.max_length}


def check_configuration(entry: Entry, inspection: Inspection) -> None:
    """Refuse an entry that another configuration of the same weights made.

    Options that only one of the two has, as after an upgrade of transformers, are not compared.

    Raises:
        EntryError: an option differs; the message names each with both values.
    """
    made = without(json.loads((entry.backbone / "config.json").read_text("utf-8")), _IDLE)
    made["longest input"] = entry.manifest.model_info["max_length"]
    now = computing_options(inspection)
    differing = differing_entries(made, now)
    if differing:
        changes = ", ".join(f"{name} {made[name]!r} is now {now[name]!r}" for name in differing)
        raise EntryError(
            f"{entry.path} was made from the same weights under another configuration: {changes}. "
            "Restore it, choose another --cache, or replace the entry with --overwrite."
        )
