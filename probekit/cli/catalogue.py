"""``probekit tasks`` and ``probekit heads``: what there is to choose from."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

import typer

from probekit.base.plugins import Registry
from probekit.cli import arguments
from probekit.cli.output import print_table, show
from probekit.errors import OptionError
from probekit.train.sweeps.protocols import PROTOCOLS


def tasks(
    family: Annotated[
        str | None,
        typer.Argument(metavar="FAMILY", help="List one family: ud has the treebanks of the Hub."),
    ] = None,
    data: arguments.Data = None,
    json: arguments.Json = False,
) -> None:
    """List the tasks, their label columns (default first) and metrics; or those of one family."""
    from probekit.tasks import TASKS, variants_of

    if family is not None:
        print_table([{"task": name} for name in variants_of(family, data)], json=json)
        return
    if data is not None:
        raise OptionError("--data lists the treebanks of a folder: probekit tasks ud --data DIR.")

    rows = [
        {
            "task": task.name
            if family.variants or not family.variant
            else f"{name}/{family.variant}",
            "kind": " + ".join(dict.fromkeys(task.kinds.values())),
            "labels": list(task.columns),
            "metric": list(dict.fromkeys(task.metrics.values())),
            "text": family.summary,
        }
        for name, family in TASKS.items()
        for task in family.tasks()
    ]
    print_table(rows, json=json)
    if not json:
        show(
            "\nThe first label column is the default. Your own data: give the path of a .conll, "
            ".conllu, .jsonl, .json, .parquet, .csv, .tsv or .txt file, or of a folder with one "
            "file (or its shards) per split, or the name of a data set of the Hub; --kind says "
            "what it labels. `probekit tasks ud` lists the treebanks."
        )


def heads(json: arguments.Json = False) -> None:
    """List heads, decoders, protocols and methods of fine-tuning, with their options."""
    words = not json
    tables = (_heads(words), _decoders(words), _methods(words), _protocols())
    for number, rows in enumerate(tables):
        if number and not json:
            show()
        print_table(rows, json=json)
    if not json:
        show(
            "\nOptions follow the name: --head extra-layers:n=2, --decoder mlp:hidden=128, "
            "--method lora:rank=4. "
            "A protocol fills in what is not given on the command line.\n"
            "Rates are those of groups of parameters beside lr: --lr mixing=0.1."
        )


def _heads(words: bool) -> list[dict[str, Any]]:
    from probekit.probe.heads import HEADS

    return [
        {
            "head": name,
            "h =": head.formula,
            "layers": head.default_layers,
            "lr": head.learning_rate,
            "rates": _rates(head.group_rates),
            "options": _defaults(head, words),
            "source": _source(HEADS, name, head.source),
        }
        for name, head in HEADS.items()
    ]


def _decoders(words: bool) -> list[dict[str, Any]]:
    from probekit.base.kinds import KINDS
    from probekit.probe.decoders import DECODERS

    return [
        {
            "decoder": name,
            "for": [kind for kind in KINDS if kind in decoder.kinds],
            "what": decoder.summary,
            "rates": _rates(decoder.group_rates),
            "options": _defaults(decoder, words),
            "source": _source(DECODERS, name, decoder.source),
        }
        for name, decoder in DECODERS.items()
    ]


def _methods(words: bool) -> list[dict[str, Any]]:
    from probekit.tuning import METHODS

    return [
        {
            "method": name,
            "what": method.summary,
            "lr": method.learning_rate or "-",
            "rates": _rates(method.group_rates),
            "options": _defaults(method, words),
            "source": method.source,
        }
        for name, method in METHODS.items()
    ]


def _protocols() -> list[dict[str, Any]]:
    return [
        {
            "protocol": name,
            "heads": list(protocol.heads),
            "what": protocol.summary,
            "source": protocol.source,
        }
        for name, protocol in PROTOCOLS.items()
    ]


def _source(registry: Registry[Any], name: str, said: str) -> str:
    """Return what a plug-in says of its source, and of one of third parties its package."""
    origin = registry.origin(name)
    return said if origin is None else f"{said} ({origin.package or origin.path})"


def _rates(by_group: Mapping[str, float | None]) -> list[str]:
    """Return the groups of parameters besides ``weights``, with their default rates."""
    return [f"{name}={'lr' if rate is None else rate}" for name, rate in by_group.items()]


def _defaults(spec: type, words: bool) -> list[str]:
    """Return the options of a plug-in with their defaults; what ``repr`` hides is not typed.

    Args:
        spec: the plug-in.
        words: whether words stand for a default that depends on the backbone.
    """
    return [
        f"{field.name}={(words and field.metadata.get('unset')) or str(field.default).lower()}"
        for field in fields(spec)
        if field.init and field.repr
    ]
