"""``probekit train``, ``sweep`` and ``depth``: train heads from the cache, without the backbone."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from probekit.cli import options
from probekit.cli.output import print_records
from probekit.cli.run_list import first_label, make_plan, own_head
from probekit.cli.spread import spread
from probekit.cli.target import Target
from probekit.cli.training_options import Asked, TrainingOptions
from probekit.cli.values import each, parse_bytes

if TYPE_CHECKING:
    from probekit.results import Record
    from probekit.train.sweeps.specs import TrainSpec

logger = logging.getLogger(__name__)

Save = Annotated[Path | None, typer.Option("--save", help="Folder to save the trained heads in.")]
Predictions = Annotated[
    bool,
    typer.Option(
        "--predictions/--no-predictions",
        help="Write dev and test predictions beside the records; depths are compared by them.",
    ),
]
Engine = Annotated[str, typer.Option("--engine", help="What runs the workers: local.")]
Workers = Annotated[int, typer.Option("--workers", help="Worker processes.")]


@spread
def train(
    model: options.Model,
    task: options.OptionalTask = None,
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
    baselines: Annotated[
        bool,
        typer.Option("--baselines", help="Train what to hold it against, in the same table."),
    ] = False,
    workers: Workers = 1,
    own: options.OwnData,
    shared: TrainingOptions,
) -> None:
    """Train a head (or several) from the cache and print the scores."""
    target = Target.of(model, task, own, shared)
    head = own_head(shared.protocol) if head is None else head
    plan = make_plan(target, shared, asked, head=head, depths=[depth])
    out = shared.out or target.default_out(first_label(asked))
    start = _with_baselines if baselines else _sweep
    records = start(plan, out, target, shared, save=save, predictions=predictions, workers=workers)
    print_records(records, json=shared.json)


@spread
def sweep(
    model: options.Model,
    task: options.OptionalTask = None,
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
    workers: Workers = 1,
    engine: Engine = "local",
    own: options.OwnData,
    shared: TrainingOptions,
) -> None:
    """Train every combination of comma-separated options; finished runs are skipped.

    Lists may be given for --head, --depth, {lists}.
    """
    target = Target.of(model, task, own, shared)
    plan = make_plan(target, shared, asked, head=head, depths=each(depth, int, "--depth"))
    out = shared.out or target.default_out(first_label(asked))
    records = _sweep(
        plan,
        out,
        target,
        shared,
        save=save,
        predictions=predictions,
        workers=workers,
        engine=engine,
    )
    print_records(records, json=shared.json)


@spread
def depth(
    model: options.Model,
    task: options.OptionalTask = None,
    *,
    head: Annotated[
        str | None,
        typer.Option("--head", help="Heads, separated by commas.", show_default="last"),
    ] = None,
    every: Annotated[int, typer.Option("--every", help="Distance between depths.")] = 1,
    asked: Asked,
    predictions: Predictions = True,
    workers: Workers = 1,
    engine: Engine = "local",
    own: options.OwnData,
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
    *,
    save: Path | None = None,
    predictions: bool = False,
    workers: int = 1,
    engine: str = "local",
) -> "list[Record]":
    """Train the runs of a plan, and say where the records are."""
    from probekit.cli.output import progress_wanted
    from probekit.train.sweeps import sweep

    records = sweep(
        plan,
        out=out,
        location=target.location,
        workers=workers,
        engine=engine,
        memory=parse_bytes(shared.memory),
        device=shared.device,
        save=save,
        predictions=predictions,
        progress=progress_wanted(),
    )
    _say_where(out, save)
    return records


def _with_baselines(
    plan: "Sequence[TrainSpec]",
    out: Path,
    target: Target,
    shared: TrainingOptions,
    *,
    save: Path | None = None,
    predictions: bool = False,
    workers: int = 1,
) -> "list[Record]":
    """Train heads with their baselines; return all records, and say what could not be had."""
    from probekit.cli.output import progress_wanted
    from probekit.train.baselines import run_baselines

    try:
        found = run_baselines(
            plan,
            out=out,
            location=target.location,
            workers=workers,
            memory=parse_bytes(shared.memory),
            device=shared.device,
            save=save,
            predictions=predictions,
            progress=progress_wanted(),
        )
    finally:  # the heads may be there although a baseline failed
        if out.is_file():
            _say_where(out, save)
    for note in found.notes:
        logger.info("%s", note)
    return [*found.guesses, *found.heads, *found.random]


def _say_where(out: Path, save: Path | None) -> None:
    """Say where the records are, and the saved heads, if any."""
    logger.info("records: %s", out)
    if save is not None and save.exists():
        logger.info("saved heads: %s", save)
