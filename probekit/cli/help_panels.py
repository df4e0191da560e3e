"""Help in panels: which options of a command matter first, and what the others are about.

The first panel of a command has ten options at most. An option that no panel names stands there.
"""

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any

from typer.core import TyperCommand
from typer.models import OptionInfo

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
    "finetune": ("head", "method", *_OF_RUNS, "save"),
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
    return tuple(field.name for group in groups for field in fields(group))


OF_EXTRACT: Mapping[str, tuple[str, ...]] = {
    "What is stored": ("format", "dtype", "keep", "pooling", "name"),
    "How texts are run": (
        *("compute_dtype", "quantize", "overlong", "max_length", "batch_tokens", "device_map"),
        "shard",
    ),
    "Language modelling": ("passes", "mask_seed", "every", "tie"),
    "Model, and entries that are there": (
        *("part", "revision", "trust_remote_code", "random_init", "overwrite", "restart"),
    ),
}
OF_IMPORT: Mapping[str, tuple[str, ...]] = {
    "What is stored": ("layers", "limit", "format", "dtype", "keep", "pooling", "name"),
    "Model, and entries that are there": ("part", "revision", "overwrite", "restart"),
}
OF_ALL: Mapping[str, tuple[str, ...]] = {
    "What is trained": _names(ProbeOptions, Tuning),
    "Which sentences": ("shots", "fraction", "hold_out", "seeds", *_names(Data)),
    "How it is fitted": ("protocol", *_names(Fitting)),
    "Steps, where nothing is solved": _names(Steps, Descent),
    "Where it starts": _names(Start),
    "Your own data": _names(OwnData),
    "What is kept": ("out", "save", "predictions", "ablate", "track"),
    "What is shown": (
        *("where", "samples", "sample", "seed", "examples", "raw", "along"),
        "as_config",
        *_names(FigureLook),
    ),
    MACHINE: (
        "trust_remote_code",
        *("cache", "entry", "data", "device", "device_map", "memory"),
        *("workers", "engine", "address", "gpus_per_worker", "log_file", "json"),
    ),
}
"""The other panels, in their order; those of ``extract`` or ``import`` alone come first there."""


def panels_of(name: str) -> Mapping[str, tuple[str, ...]]:
    """Return the panels that a command may have besides the first one."""
    return {**{"extract": OF_EXTRACT, "import": OF_IMPORT}.get(name, {}), **OF_ALL}


class InPanels(TyperCommand):
    """A command whose help has a paragraph per panel, plain as logs and pipes want it."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options by panel."""
        found: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is not None:
                found.setdefault(_title(one), []).append(record)
        for title, records in found.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _title(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    return getattr(parameter, "rich_help_panel", None) or "Options"


def in_panels(name: str, command: Callable[..., object]) -> Callable[..., object]:
    """Return a command whose options stand in panels, those that matter first in front.

    Args:
        name: of the command.
        command: as typer takes it, see `spread`.
    """
    signature = inspect.signature(command)
    titles = dict(_placed(name, signature.parameters))
    options = sorted(titles, key=lambda one: _place(name, one, titles[one]))
    given = [one for option, one in signature.parameters.items() if option not in titles]
    parameters = [*given, *(_in_panel(signature.parameters[one], titles[one]) for one in options)]

    @functools.wraps(command)
    def run(**typed: Any) -> object:
        return command(**typed)

    keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    run.__signature__ = signature.replace(parameters=keyword)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in keyword}
    return run


def _place(name: str, option: str, title: str | None) -> tuple[int, int]:
    """Return where an option stands: the number of its panel, and its own in there."""
    panels = panels_of(name)
    panel = 0 if title is None else 1 + list(panels).index(title)
    order = FIRST.get(name, ()) if title is None else panels[title]
    # what has no place keeps the order that it has, behind the others
    return panel, order.index(option) if option in order else len(order)


def _placed(name: str, parameters: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield each option of a command and its panel, None for the first one."""
    first = FIRST.get(name)
    for option, parameter in parameters.items():
        if _info(parameter) is not None:
            named = (title for title, names in panels_of(name).items() if option in names)
            stands_first = first is None or option in first
            yield option, None if stands_first else next(named, None)


def _info(parameter: inspect.Parameter) -> Any:
    """Return what typer is told of an option; None of an argument."""
    about = getattr(parameter.annotation, "__metadata__", ())
    return next((one for one in about if isinstance(one, OptionInfo)), None)


def _in_panel(parameter: inspect.Parameter, title: str | None) -> inspect.Parameter:
    info = copy.copy(_info(parameter))  # several commands share one
    info.rich_help_panel = title
    type_ = parameter.annotation.__origin__
    return parameter.replace(annotation=Annotated[type_, info])
