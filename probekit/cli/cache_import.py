"""``probekit cache import``: hidden states that another program computed become entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from probekit.base.registry import option
from probekit.cli import arguments
from probekit.cli.output import print_entries, progress_wanted
from probekit.cli.spread import spread
from probekit.errors import OptionError
from probekit.extraction.imports.import_options import ImportOptions

States = Annotated[
    list[str],
    typer.Argument(
        metavar="STATES...",
        help="SPLIT=PATH of a folder of vLLM's files for each split; PATH alone serves all splits "
        "of --split.",
    ),
]
Label = Annotated[str | None, typer.Option("--label", help="For your own data: the label column.")]


@dataclass(frozen=True, kw_only=True)
class ImportPlace:
    """Which text the states are of, and what becomes of entries that are there."""

    data: arguments.Data = None
    split: str | None = option(
        None, "Splits, where STATES is a PATH alone, e.g. train,dev; all by default."
    )
    cache: arguments.Cache = Path("cache")
    overwrite: bool = option(False, "Replace a complete entry of the same key.")
    restart: bool = option(
        False, "Throw away what an unfinished import with other options has finished."
    )
    name: str | None = option(None, "Call the model NAME in the cache, and as MODEL from then on.")
    revision: str | None = option(None, "Hub branch, tag or commit.")


@spread
def import_entries(
    model: arguments.Model,
    task: arguments.Task,
    states: States,
    *,
    place: ImportPlace,
    own: arguments.OwnData,
    label: Label = None,
    log_file: arguments.LogFile = None,
    json: arguments.Json = False,
    shared: ImportOptions,
) -> None:
    """Make entries of hidden states that vLLM computed of TASK's text, one file per request.

    They are checked against the text, token by token with MODEL's tokenizer. Arrays are imported in
    Python: probekit.import_states.
    """
    from probekit.extraction.imports import import_states

    arguments.check_order(model, task)
    given = vars(place).copy()
    split = given.pop("split")
    splits = None if split is None else arguments.split_list(split)
    found = import_states(
        model,
        task,
        _by_split(states, splits),
        splits=splits,
        options=shared,
        label=label,
        progress=progress_wanted(),
        **vars(own),
        **given,
    )
    print_entries(found, json=json)


def _by_split(states: Sequence[str], splits: list[str] | None) -> str | dict[str, str]:
    """Return one path, or the path of each split.

    Raises:
        OptionError: there are several without a split, two of one split, or a split beside them.
    """
    pairs = [one.partition("=") for one in states]
    alone = [one for one in states if Path(one).exists() or "=" not in one]
    if alone:
        if len(states) > 1:
            raise OptionError(
                f"{alone[0]} is of which split? With several STATES, write SPLIT=PATH for each."
            )
        return alone[0]
    if splits is not None:
        raise OptionError(
            f"{states[0]} says its split itself: leave --split {','.join(splits)} out."
        )
    named = {split: path for split, _, path in pairs}
    if len(named) < len(pairs):
        raise OptionError(f"two STATES of one split: {' '.join(states)}. Give one for each.")
    return named
