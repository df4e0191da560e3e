"""``probekit extract``: run a frozen model once and cache every layer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from probekit.base.registry import Panel, option
from probekit.cli import arguments
from probekit.cli.output import print_entries, print_forecast, progress_wanted
from probekit.cli.spread import spread
from probekit.errors import OptionError
from probekit.extraction.request_options import ExtractOptions


@dataclass(frozen=True, kw_only=True)
class EntryOptions:
    """Which model and files are read, and what becomes of entries that are there."""

    PANEL = Panel.ENTRIES
    data: arguments.Data = None
    split: str | None = option(None, "Splits, e.g. train,dev,test; all by default.", Panel.FIRST)
    device: arguments.Device = "auto"
    device_map: arguments.DeviceMap = None
    cache: arguments.Cache = Path("cache")
    overwrite: bool = option(
        False, "Replace an entry of the same key, finished or not, whatever its options were."
    )
    shard: str | None = option(
        None,
        "Extract the second of four shares, for 2/4; other processes extract the others, at any "
        "time, into the same cache or for `cache merge`.",
        Panel.TEXTS,
        metavar="I/N",
    )
    name: str | None = option(None, "Call the model NAME in the cache, and as MODEL from then on.")
    revision: str | None = option(None, "Hub branch, tag or commit.")
    trust_remote_code: arguments.TrustRemoteCode = False


DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Write nothing: print rows, bytes, time, and after how many epochs the cache has paid "
        "for itself, from short measurements on this machine.",
    ),
]


@spread
def extract(
    model: arguments.Model,
    task: arguments.Task,
    *,
    entry: EntryOptions,
    text: arguments.OwnData,
    label: arguments.Label = None,
    crew: arguments.Crew,
    json: arguments.Json = False,
    dry_run: DryRun = False,
    shared: ExtractOptions,
) -> None:
    """Run MODEL over TASK's text once and write every layer's hidden states to the cache."""
    from probekit.extraction import ExtractTarget, Shard, extract_splits, forecast, open_session

    arguments.check_order(model, task)
    engine = crew.chosen()
    options = vars(entry).copy()
    split, shard = options.pop("split"), options.pop("shard")
    if dry_run and shard is not None:
        raise OptionError(f"--dry-run forecasts a whole extraction: leave --shard {shard} out.")
    asked = ExtractTarget(
        model=model,
        task=task,
        own=text.parse(),
        label=label,
        splits=None if split is None else tuple(arguments.split_list(split)),
        restart=entry.overwrite,
        shard=Shard.asked(shard, crew.workers),
        workers=crew.workers,
        **options,
    )
    session, splits = open_session(asked, shared, progress=progress_wanted())
    if dry_run:
        print_forecast(forecast(session, splits), json=json)
    else:
        print_entries(extract_splits(session, splits, engine=engine), json=json)
