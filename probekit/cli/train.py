"""``probekit train``, ``sweep`` and ``depth``: train heads from the cache, without the backbone."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.cli import arguments
from probekit.cli.output import progress_wanted
from probekit.cli.record_tables import print_records
from probekit.cli.run_list import each, first_label, make_plan
from probekit.cli.spread import spread
from probekit.cli.training_options import Asked, Target, TrainingOptions
from probekit.errors import OptionError
from probekit.train.sweeps.protocols import get_protocol

if TYPE_CHECKING:
    from probekit.results import Record
    from probekit.train.sweeps.specs import TrainSpec

logger = logging.getLogger(__name__)

_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

Save = Annotated[Path | None, typer.Option("--save", help="Folder to save the trained heads in.")]
Predictions = Annotated[
    bool,
    typer.Option(
        "--predictions/--no-predictions",
        help="Write dev and test predictions beside the records; depths are compared by them.",
    ),
]
Ablate = Annotated[
    str | None,
    typer.Option(
        "--ablate",
        help="Leave each layer out in turn and record what the dev loss gains: mean (its rows are "
        "their train mean, nothing is fitted again) or refit (fitted again on the other layers).",
    ),
]
Engine = Annotated[str, typer.Option("--engine", help="What runs the workers: local.")]
Workers = Annotated[int, typer.Option("--workers", help="Worker processes.")]


@spread
def train(
    model: arguments.Model,
    task: arguments.OptionalTask = None,
    *,
    head: Annotated[
        str | None,
        typer.Option(
            "--head",
            help="Head (see `probekit heads`), with options: extra-layers:n=2; several with "
            "commas.",
            show_default="dwatt",
        ),
    ] = None,
    depth: Annotated[
        int | None, typer.Option("--depth", help="Largest layer that the head may see.")
    ] = None,
    asked: Asked,
    save: Save = None,
    predictions: Predictions = False,
    ablate: Ablate = None,
    baselines: Annotated[
        bool,
        typer.Option("--baselines", help="Train what to hold it against, in the same table."),
    ] = False,
    workers: Workers = 1,
    own: arguments.OwnData,
    shared: TrainingOptions,
) -> None:
    """Train a head (or several) from the cache and print the scores."""
    target = Target.of(model, task, own, shared)
    head = get_protocol(shared.protocol).heads[-1] if head is None else head
    plan = make_plan(target, shared, asked, head=head, depths=[depth])
    out = shared.out or target.default_out(first_label(asked))
    start = _with_baselines if baselines else _sweep
    ways = {"predictions": predictions, "ablate": ablate, "workers": workers}
    records = start(plan, out, target, shared, save, **ways)
    print_records(records, json=shared.json)


@spread
def sweep(
    model: arguments.Model,
    task: arguments.OptionalTask = None,
    *,
    head: Annotated[
        str | None,
        typer.Option(
            "--head", help="Heads, separated by commas.", show_default="last,p32,concat,dwatt"
        ),
    ] = None,
    depth: Annotated[
        str | None, typer.Option("--depth", help="Largest layers that the head may see.")
    ] = None,
    asked: Asked,
    save: Save = None,
    predictions: Predictions = False,
    ablate: Ablate = None,
    workers: Workers = 1,
    engine: Engine = "local",
    own: arguments.OwnData,
    shared: TrainingOptions,
) -> None:
    """Train every combination of comma-separated options; finished runs are skipped.

    Lists may be given for --head, --depth, {lists}.
    """
    target = Target.of(model, task, own, shared)
    plan = make_plan(target, shared, asked, head=head, depths=each(depth, int, "--depth"))
    out = shared.out or target.default_out(first_label(asked))
    ways = {"predictions": predictions, "ablate": ablate, "workers": workers, "engine": engine}
    records = _sweep(plan, out, target, shared, save, **ways)
    print_records(records, json=shared.json)


@spread
def depth(
    model: arguments.Model,
    task: arguments.OptionalTask = None,
    *,
    head: Annotated[
        str | None,
        typer.Option("--head", help="Heads, separated by commas.", show_default="last"),
    ] = None,
    every: Annotated[int, typer.Option("--every", help="Distance between depths.")] = 1,
    asked: Asked,
    save: Save = None,
    predictions: Predictions = True,
    workers: Workers = 1,
    engine: Engine = "local",
    own: arguments.OwnData,
    shared: TrainingOptions,
) -> None:
    """Train a head at every depth 0..L in one pass over the cache."""
    from probekit.train.sweeps.specs import depths

    target = Target.of(model, task, own, shared)
    label = first_label(asked)
    plan = make_plan(
        target,
        shared,
        asked,
        head="last" if head is None and shared.protocol is None else head,
        depths=depths(target.n_blocks(label, asked["fit_on"]), every, asked["layers"]),
    )
    out = shared.out or target.default_out(label)
    records = _sweep(
        plan, out, target, shared, predictions=predictions, workers=workers, engine=engine
    )
    print_records(records, json=shared.json, by_depth=True)


def _sweep(
    plan: "Sequence[TrainSpec]",
    out: Path,
    target: Target,
    shared: TrainingOptions,
    save: Path | None = None,
    **ways: Any,
) -> "list[Record]":
    """Train the runs of a plan, and say where the records are."""
    from probekit.train.sweeps.run import sweep

    records = sweep(plan, out=out, save=save, **_where(target, shared), **ways)
    say_where(out, save, ways.get("ablate"))
    return records


def _with_baselines(
    plan: "Sequence[TrainSpec]",
    out: Path,
    target: Target,
    shared: TrainingOptions,
    save: Path | None,
    **ways: Any,
) -> "list[Record]":
    """Train heads with their baselines; return all records, and say what could not be had."""
    from probekit.train.baselines import run_baselines

    try:
        found = run_baselines(plan, out=out, save=save, **_where(target, shared), **ways)
    finally:  # the heads may be there although a baseline failed
        if out.is_file():
            say_where(out, save, ways.get("ablate"))
    for note in found.notes:
        logger.info("%s", note)
    return [*found.guesses, *found.heads, *found.random]


def _where(target: Target, shared: TrainingOptions) -> dict[str, Any]:
    """Return where heads are trained, and from what."""
    return {
        "location": target.location,
        "memory": parse_bytes(shared.memory),
        "device": shared.device,
        "progress": progress_wanted(),
    }


def say_where(out: Path, save: Path | None = None, ablate: str | None = None) -> None:
    """Say where the records are, the losses without a layer and the saved heads, if any."""
    logger.info("records: %s", out)
    if ablate is not None:
        logger.info("losses without a layer: probekit table %s --of ablation", out)
    if save is not None and save.exists():
        logger.info("saved heads: %s", save)


def parse_bytes(text: str | None) -> int | None:
    """Read a size such as ``8GB`` or ``500MB`` (powers of 1000), or ``8GiB`` (of 1024).

    Raises:
        OptionError: the text is not a size.
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", text.strip().lower())
    if not found:
        raise OptionError(f"--memory {text!r} is not a size. Write 8GB, 500MB or 2GiB.")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2]])
