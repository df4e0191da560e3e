"""Help in panels: which options of a command matter first, and what the others are about.

The first panel of a command has ten options at most. An option that no panel names stands there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from probekit.base.selection import PROTOCOL_DEFAULTS
from probekit.cli.arguments import FigureLook, OwnData
from probekit.train.option_groups import Descent, Steps
from probekit.train.sweeps.run_options import Data, Fitting, ProbeOptions, Start, Tuning

MOST_FIRST = 10
MACHINE = "Cache, machine and messages"

_OF_RUNS = ("label", "kind", "shots", "seeds", "hold_out", "predictions", "device")
FIRST: Mapping[str, tuple[str, ...]] = {
    "extract": (
        *("kind", "text", "label", "data", "split", "limit", "layers", "device", "cache"),
        "dry_run",
    ),
    "train": ("head", *_OF_RUNS, "baselines", "save"),
    "sweep": ("head", *_OF_RUNS, "normalize", "workers"),
    "depth": ("head", "every", *_OF_RUNS, "workers"),
    "overthinking": ("head", "where", "split", "examples", "output"),
    "exit": ("head", "where", "split", "tolerance", "output"),
    "import": (
        *("layer_ids", "special_tokens", "last_layer", "kind", "label", "data"),
        *("split", "producer", "cache"),
    ),
    "geometry": ("split", "array", "rows", "against", "output", "probes", "kind", "cache", "json"),
    "table": ("of", "where", "split", "columns", "best_on", "verdicts", "against", "also", "style"),
    "plot": ("output", "where", "split", "of", "overlay", "relative", "per_seed", "classes"),
}
"""By command, the options that matter first, in their order; of others the first panel has all."""


def _names(*groups: Any) -> tuple[str, ...]:
    options = (field for group in groups for field in fields(group) if "help" in field.metadata)
    return tuple(field.name for field in options if field.name not in PROTOCOL_DEFAULTS)


OF_EXTRACT: Mapping[str, tuple[str, ...]] = {
    "What is stored": ("format", "dtype", "keep", "pooling", "name"),
    "How texts are run": (
        *("compute_dtype", "quantize", "overlong", "max_length", "batch_tokens", "device_map"),
        "shard",
    ),
    "Language modelling": ("passes", "mask_seed", "every", "tie"),
    "Model, and entries that are there": (
        *("part", "revision", "trust_remote_code", "random_init", "overwrite"),
    ),
}
OF_IMPORT: Mapping[str, tuple[str, ...]] = {
    "What is stored": ("layers", "limit", "format", "dtype", "keep", "pooling", "name"),
    "Model, and entries that are there": ("part", "revision", "overwrite"),
}
OF_ALL: Mapping[str, tuple[str, ...]] = {
    "What is trained": ("depth", *_names(ProbeOptions, Tuning, Start)),
    "Which sentences": ("shots", "fraction", "hold_out", "seeds", *_names(Data)),
    "How it is fitted": ("protocol", *_names(Fitting, Steps, Descent)),
    "Your own data": _names(OwnData),
    "What is kept": ("out", "save", "predictions", "ablate", "track"),
    "What is shown": (
        *("where", "samples", "sample", "seed", "examples", "raw", "along"),
        "as_config",
        *_names(FigureLook),
    ),
    MACHINE: (
        "trust_remote_code",
        *("cache", "entry", "data", "device", "device_map", "workers", "engine", "json"),
    ),
}
"""The other panels, in their order; those of ``extract`` or ``import`` alone come first there."""


def in_panels(command: str, parameters: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the parameters of a command by the title of their panel, each in its place.

    Args:
        command: its name.
        parameters: as typer has them; an option that no panel names stands in the first one.
    """
    first = FIRST.get(command)
    panels = {**{"extract": OF_EXTRACT, "import": OF_IMPORT}.get(command, {}), **OF_ALL}
    found: dict[str, list[Any]] = {title: [] for title in ("Arguments", "Options", *panels)}
    for one in parameters:
        named = (title for title, names in panels.items() if one.name in names)
        stands_first = first is None or one.name in first
        title = "Options" if stands_first else next(named, "Options")
        found["Arguments" if one.param_type_name == "argument" else title].append(one)
    for title, own in found.items():
        order = (first or ()) if title == "Options" else panels.get(title, ())
        # what has no place keeps the order that it has, behind the others
        own.sort(key=lambda one: order.index(one.name) if one.name in order else len(order))
    return {title: own for title, own in found.items() if own}
