"""``probekit train``, ``sweep``, ``depth``, ``suite``, ``audit``: what trains heads and readers."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.base.layers import ReadPoint
from probekit.base.registry import Panel, option
from probekit.cli import arguments
from probekit.cli.output import print_json, print_records, progress_wanted, show
from probekit.cli.run_list import (
    Asked,
    Target,
    TrainingOptions,
    first_label,
    make_plan,
    read_protocol,
)
from probekit.cli.spread import spread
from probekit.tasks.suites import SUITES

if TYPE_CHECKING:
    from probekit.results import Record

logger = logging.getLogger(__name__)

_HANDED_ON = ("device", "track", "save", "trust_remote_code")
"""Options of training that `sweep` takes as they are."""


def _carry_out(
    target: Target,
    asked: Mapping[str, Any],
    shared: TrainingOptions,
    head: str | None,
    ways: Mapping[str, Any],
    *,
    depths: Sequence[int] = (),
    baselines: bool = False,
) -> None:
    """Train the runs that are asked for, say where the records are, and print the scores.

    Args:
        target: what they read.
        asked: the options of runs, as typed.
        shared: the options besides.
        head: heads, separated by commas; None is those of the protocol.
        ways: what else `sweep` is told: ``predictions``, ``workers``, ...
        depths: largest layers that a head may see, which make one table by depth; of none, all.
        baselines: train what to hold them against too.
    """
    target.check_cached(asked)
    plan = make_plan(target, shared, asked, head=head, depths=depths or [None])
    if depths:  # the embeddings are of no block, so other points begin at depth 1
        plan = [s for s in plan if s.depth != 0 or ReadPoint.parse(s.point).has_embeddings]
    from probekit.train.sweeps.run import sweep  # with torch

    out = shared.out or target.default_out(first_label(asked))
    options = {name: getattr(shared, name) for name in _HANDED_ON} | dict(ways)
    options |= {"out": out, "location": target.location, "progress": progress_wanted()}
    records: Sequence[Record] | None = None
    try:
        if baselines:
            from probekit.train.baselines import run_baselines

            compared = run_baselines(plan, **options)
            for note in compared.notes:
                logger.info("%s", note)
            records = [*compared.guesses, *compared.heads, *compared.random]
        else:
            records = sweep(plan, **options)
    finally:
        # the heads may be there although a baseline failed
        if records is not None or (baselines and out.is_file()):
            logger.info("records: %s", out)
            if ways.get("ablate") is not None:
                logger.info("losses without a layer: probekit table %s --of ablation", out)
            if shared.save is not None and shared.save.exists():
                logger.info("saved heads: %s", shared.save)
    print_records(records, json=shared.json, by_depth=bool(depths))


Predictions = Annotated[
    bool | None,
    typer.Option(
        "--predictions/--no-predictions",
        help="Write dev and test predictions beside the records, for intervals over sentences.",
        show_default="written, but by a sweep of all layers from the cache",
    ),
]
Ablate = Annotated[
    str | None,
    typer.Option(
        "--ablate",
        rich_help_panel=Panel.KEPT,
        help="Leave each layer out in turn and record what the dev loss gains: mean (its rows are "
        "their train mean, nothing is fitted again) or refit (fitted again on the other layers).",
    ),
]


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
    asked: Asked,
    predictions: Predictions = None,
    ablate: Ablate = None,
    baselines: Annotated[
        bool,
        typer.Option("--baselines", help="Train what to hold it against, in the same table."),
    ] = False,
    workers: arguments.Workers = 1,
    shared: TrainingOptions,
) -> None:
    """Train a head (or several) and print the scores: from the cache, or with --method its model.

    With --method the text, its labels and the model are those of an entry in the cache, and the
    model runs in every step. Finished runs are skipped.
    """
    target = Target.of(model, task, shared, asked)
    head = read_protocol(shared.protocol).heads[-1] if head is None else head
    kept = "new" if predictions is None else predictions
    ways = {"predictions": kept, "ablate": ablate, "workers": workers}
    _carry_out(target, asked, shared, head, ways, baselines=baselines)


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
    asked: Asked,
    predictions: Predictions = None,
    ablate: Ablate = None,
    crew: arguments.Crew,
    shared: TrainingOptions,
) -> None:
    """Train every combination of comma-separated options; finished runs are skipped.

    Lists may be given for --head, {lists}.
    """
    target = Target.of(model, task, shared, asked)
    ways = {"predictions": predictions, "ablate": ablate, **crew.ways}
    _carry_out(target, asked, shared, head, ways)


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
    predictions: Predictions = None,
    crew: arguments.Crew,
    shared: TrainingOptions,
) -> None:
    """Train a head at every depth 0..L in one pass over the cache."""
    target = Target.of(model, task, shared, asked)
    target.check_cached(asked)
    n_blocks = target.splits(asked).manifest.n_blocks
    if head is None and not read_protocol(shared.protocol).name:
        head = "last"
    from probekit.train.sweeps.specs import depths  # with torch

    largest = depths(n_blocks, every, asked["layers"])
    ways = {"predictions": predictions, **crew.ways}
    _carry_out(target, asked, shared, head, ways, depths=largest)


@dataclass(frozen=True, kw_only=True)
class SuiteOptions:
    """How the tasks of a suite are run."""

    tasks: str | None = option(None, "Only these, separated by commas.")
    layers: str = option("all", "Layers to store and to probe: all, -1, 0,4,8.")
    head: str = option("last", "Head at each layer.")
    protocol: str | None = option(
        None, "sae-probes: logistic regression as its runner fits it.", Panel.FITTED
    )
    shots: int | None = option(None, "K: draw K x classes training texts.")
    label_noise: float | None = option(
        None, "Replace this share of train's labels with another class."
    )
    positives: float | None = option(
        None, "Two classes: the share of train that has the class that sorts last."
    )
    out: Path | None = option(
        None, "Records file; runs/<model>/suite-<name>.jsonl if unset.", Panel.KEPT
    )


@spread
def suite(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{', '.join(SUITES)}.")],
    model: arguments.Model,
    data: arguments.Data = None,
    cache: arguments.Cache = Path("cache"),
    workers: arguments.Workers = 1,
    *,
    asked: SuiteOptions,
    json: arguments.Json = False,
) -> None:
    """Extract every task of a suite, train a probe at each layer, print means over the tasks.

    What is finished is not repeated. After each task it says how long the others will take.
    """
    from probekit.results import scored_by
    from probekit.results.tables import depth_table, suite_table
    from probekit.store.layout import model_slug
    from probekit.train.sweeps.run_suite import run_suite  # with torch

    regime = {key: getattr(asked, key) for key in ("shots", "label_noise", "positives")}
    file = asked.out or Path("runs") / model_slug(model) / f"suite-{name}.jsonl"
    records = run_suite(
        name,
        model,
        out=file,
        data=data,
        tasks=None if asked.tasks is None else arguments.split_list(asked.tasks),
        layers=asked.layers,
        head=asked.head,
        protocol=asked.protocol,
        options={key: value for key, value in regime.items() if value is not None},
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


def audit(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A records file with predictions; where it holds several settings, with "
            "conditions that leave one of them, such as #head=p32,shots=128.",
        ),
    ],
    split: Annotated[
        str | None,
        typer.Option("--split", help="test or dev.", show_default="test where there is one"),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="PART",
            help="Also read the texts without a part, such as system, between:<b>:</b> or "
            "regex:R. Repeatable.",
        ),
    ] = None,
    cache: arguments.Cache = Path("cache"),
    data: arguments.Data = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Records of the readers; beside RUN, NAME-audit.jsonl if unset."
        ),
    ] = None,
    json: arguments.Json = False,
) -> None:
    """Train simpler readers of the same labels, and say which read them as well as the probe.

    Length, bag of words and TF-IDF of whole texts, the most frequent class of each word; the
    embeddings alone; random weights, if the cache has them. Exit code 1 if one does as well, or if
    nothing is left to the probe without a part (--without).
    """
    from probekit.features import Location
    from probekit.results.comparison import choose_run
    from probekit.train.baselines.auditing import audit as audit_run
    from probekit.train.baselines.auditing import audit_table

    chosen = choose_run(run)
    file = Path(run.partition("#")[0])
    found = audit_run(
        chosen,
        out=out or file.with_name(f"{file.stem}-audit.jsonl"),
        location=Location(cache=cache, data=data),
        split=split,
        without=without or (),
        progress=progress_wanted(),
    )
    if json:
        print_json(found.to_json())
    else:
        show(audit_table(found).text(), nl=False)
    if not found.passed:
        raise typer.Exit(1)
