"""``probekit suite``: all tasks of a suite, at every layer."""

from pathlib import Path
from typing import Annotated

import typer

from probekit.base.registry import Panel
from probekit.cli import arguments
from probekit.cli.arguments import Json, split_list
from probekit.cli.output import print_json, progress_wanted, show
from probekit.tasks.suites import SUITES


def suite(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{', '.join(SUITES)}.")],
    model: arguments.Model,
    data: arguments.Data = None,
    tasks: Annotated[
        str | None, typer.Option("--tasks", help="Only these, separated by commas.")
    ] = None,
    layers: Annotated[
        str, typer.Option("--layers", help="Layers to store and to probe: all, -1, 0,4,8.")
    ] = "all",
    head: Annotated[str, typer.Option("--head", help="Head at each layer.")] = "last",
    protocol: Annotated[
        str | None,
        typer.Option(
            "--protocol",
            help="sae-probes: logistic regression as its runner fits it.",
            rich_help_panel=Panel.FITTED,
        ),
    ] = None,
    shots: Annotated[
        int | None, typer.Option("--shots", help="K: draw K x classes training texts.")
    ] = None,
    label_noise: Annotated[
        float | None,
        typer.Option("--label-noise", help="Replace this share of train's labels."),
    ] = None,
    positives: Annotated[
        float | None,
        typer.Option("--positives", help="Share of train that has the last of two classes."),
    ] = None,
    cache: arguments.Cache = Path("cache"),
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Records file; runs/<model>/suite-<name>.jsonl if unset.",
            rich_help_panel=Panel.KEPT,
        ),
    ] = None,
    workers: arguments.Workers = 1,
    json: Json = False,
) -> None:
    """Extract every task of a suite, train a probe at each layer, print means over the tasks.

    What is finished is not repeated. After each task it says how long the others will take.
    """
    from probekit.results import scored_by
    from probekit.results.tables import depth_table, suite_table
    from probekit.store.layout import model_slug
    from probekit.train.sweeps.run_suite import run_suite  # with torch

    regime = {"shots": shots, "label_noise": label_noise, "positives": positives}
    file = out or Path("runs") / model_slug(model) / f"suite-{name}.jsonl"
    records = run_suite(
        name,
        model,
        out=file,
        data=data,
        tasks=None if tasks is None else split_list(tasks),
        layers=layers,
        head=head,
        protocol=protocol,
        options={name: value for name, value in regime.items() if value is not None},
        cache=cache,
        workers=workers,
        progress=progress_wanted(),
    )
    show(f"records: {file}", err=True)
    if json:
        print_json([record.to_json() for record in records])
        return
    chosen = SUITES[name]
    averaged = chosen.averaged and len({record.task for record in records}) > 1
    tabulate = suite_table if averaged else depth_table
    show(tabulate(scored_by(records, chosen.metric)).text(), nl=False)
