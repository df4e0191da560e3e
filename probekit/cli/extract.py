"""``probekit extract``: run a frozen model once and cache every layer."""

from pathlib import Path
from typing import Annotated

import typer

from probekit.cli import options
from probekit.cli.spread import spread
from probekit.extraction.request_options import ExtractOptions

Splits = Annotated[
    str | None, typer.Option("--split", help="Splits, e.g. train,dev,test; all by default.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a complete entry of the same key.")
]
Restart = Annotated[
    bool,
    typer.Option(
        "--restart", help="Throw away what an unfinished run with other options has finished."
    ),
]
Name = Annotated[
    str | None,
    typer.Option("--name", help="Call the model NAME in the cache, and as MODEL from then on."),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Write nothing: print rows, bytes, time, and after how many epochs the cache has paid "
        "for itself, from short measurements on this machine.",
    ),
]
Revision = Annotated[str | None, typer.Option("--revision", help="Hub branch, tag or commit.")]
Label = Annotated[str | None, typer.Option("--label", help="For your own data: the label column.")]


@spread
def extract(
    model: options.Model,
    task: options.Task,
    data: options.Data = None,
    split: Splits = None,
    device: options.Device = "auto",
    cache: options.Cache = Path("cache"),
    overwrite: Overwrite = False,
    restart: Restart = False,
    name: Name = None,
    revision: Revision = None,
    *,
    own: options.OwnData,
    label: Label = None,
    log_file: options.LogFile = None,
    json: options.Json = False,
    dry_run: DryRun = False,
    shared: ExtractOptions,
) -> None:
    """Run MODEL over TASK's text once and write every layer's hidden states to the cache."""
    from probekit.cli.output import print_entries, print_forecast, progress_wanted
    from probekit.extraction import ExtractTarget, forecast, open_session

    options.check_order(model, task)
    target = ExtractTarget(
        model=model, task=task, own=own.parse(), data=data,
        splits=None if split is None else tuple(options.split_list(split)), revision=revision,
        label=label, device=device, name=name, cache=cache, overwrite=overwrite, restart=restart,
    )  # fmt: skip
    session, splits = open_session(target, shared, progress=progress_wanted())
    if dry_run:
        print_forecast(forecast(session, splits), json=json)
    else:
        print_entries([session.extract(one) for one in splits], json=json)
