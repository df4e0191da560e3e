"""``probekit train``, ``sweep`` and ``depth``: train heads from the cache, without the backbone."""

from pathlib import Path
from typing import Annotated

import typer

from probekit.cli import options
from probekit.cli.output import print_records
from probekit.cli.run_list import first_label, make_plan, own_head
from probekit.cli.spread import spread
from probekit.cli.target import Target
from probekit.cli.training import run, with_baselines
from probekit.cli.training_options import (
    Engine,
    Epochs,
    Evals,
    Head,
    Heads,
    TrainingOptions,
    Workers,
)
from probekit.cli.values import each

Save = Annotated[Path | None, typer.Option("--save", help="Folder to save the trained heads in.")]
Predictions = Annotated[
    bool,
    typer.Option(
        "--predictions/--no-predictions",
        help="Write dev and test predictions beside the records; depths are compared by them.",
    ),
]


DepthHead = Annotated[
    str | None,
    typer.Option("--head", help="Heads, separated by commas.", show_default="last"),
]


@spread
def train(
    model: options.Model,
    task: options.OptionalTask = None,
    *,
    head: Head = None,
    depth: Annotated[
        int | None, typer.Option("--depth", help="Largest layer that the head may see.")
    ] = None,
    epochs: Epochs = None,
    evals: Evals = None,
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
    plan = make_plan(target, shared, head=head, depths=[depth], epochs=epochs, evals=evals)
    start = with_baselines if baselines else run
    records = start(plan, target, shared, save=save, predictions=predictions, workers=workers)
    print_records(records, json=shared.json)


@spread
def sweep(
    model: options.Model,
    task: options.OptionalTask = None,
    *,
    head: Heads = None,
    depth: Annotated[
        str | None, typer.Option("--depth", help="Largest layers that the head may see.")
    ] = None,
    epochs: Epochs = None,
    evals: Evals = None,
    save: Save = None,
    predictions: Predictions = False,
    workers: Workers = 1,
    engine: Engine = "local",
    own: options.OwnData,
    shared: TrainingOptions,
) -> None:
    """Train every combination of comma-separated options; finished runs are skipped.

    Lists may be given for --head, --decoder, --label, --depth, --normalize, --pooling, --shots,
    --fraction, --epochs, --lr, --l2, --batch-size, --optimizer, --schedule and --weight-decay.
    """
    target = Target.of(model, task, own, shared)
    depths = each(depth, int, "--depth")
    records = run(
        make_plan(target, shared, head=head, depths=depths, epochs=epochs, evals=evals),
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
    head: DepthHead = None,
    every: Annotated[int, typer.Option("--every", help="Distance between depths.")] = 1,
    epochs: Epochs = None,
    evals: Evals = None,
    predictions: Predictions = True,
    workers: Workers = 1,
    engine: Engine = "local",
    own: options.OwnData,
    shared: TrainingOptions,
) -> None:
    """Train a head at every depth 0..L in one pass over the cache."""
    from probekit.train.sweeps.depth_choice import depths

    target = Target.of(model, task, own, shared)
    n_blocks = target.n_blocks(first_label(shared), shared.fit_on)
    plan = make_plan(
        target,
        shared,
        head="last" if head is None and shared.protocol is None else head,
        depths=depths(n_blocks, every, shared.layers),
        epochs=epochs,
        evals=evals,
    )
    records = run(plan, target, shared, predictions=predictions, workers=workers, engine=engine)
    print_records(records, json=shared.json, by_depth=True)
