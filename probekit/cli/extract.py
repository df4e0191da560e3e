"""``probekit extract``: run a frozen model once and cache every layer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from probekit.base.registry import option
from probekit.cli import arguments
from probekit.cli.crew import Crew
from probekit.cli.output import print_entries, print_forecast, progress_wanted
from probekit.cli.spread import spread
from probekit.errors import OptionError
from probekit.extraction.request_options import ExtractOptions


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which model and files are read, and what becomes of entries that are there."""

    data: arguments.Data = None
    split: str | None = option(None, "Splits, e.g. train,dev,test; all by default.")
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
Label = Annotated[str | None, typer.Option("--label", help="For your own data: the label column.")]


@spread
def extract(
    model: arguments.Model,
    task: arguments.Task,
    *,
    place: Place,
    own: arguments.OwnData,
    label: Label = None,
    crew: Crew,
    json: arguments.Json = False,
    dry_run: DryRun = False,
    shared: ExtractOptions,
) -> None:
    """Run MODEL over TASK's text once and write every layer's hidden states to the cache."""
    from probekit.extraction import (
        ExtractTarget,
        Shard,
        extract_splits,
        forecast,
        open_session,
    )

    arguments.check_order(model, task)
    engine = crew.chosen()
    given = vars(place).copy()
    split, shard = given.pop("split"), given.pop("shard")
    if dry_run and shard is not None:
        raise OptionError(f"--dry-run forecasts a whole extraction: leave --shard {shard} out.")
    splits = None if split is None else tuple(arguments.split_list(split))
    target = ExtractTarget(
        model=model, task=task, own=own.parse(), label=label, splits=splits, **given,
        restart=place.overwrite,
        shard=Shard.asked(shard, crew.workers), workers=crew.workers,
    )  # fmt: skip
    session, chosen = open_session(target, shared, progress=progress_wanted())
    if dry_run:
        print_forecast(forecast(session, chosen), json=json)
    else:
        print_entries(extract_splits(session, chosen, engine=engine), json=json)
