"""``probekit suite``: all tasks of a suite, at every layer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from probekit.base.registry import Panel, option
from probekit.cli import arguments
from probekit.cli.arguments import Json, split_list
from probekit.cli.output import print_json, progress_wanted, show
from probekit.cli.spread import spread
from probekit.tasks.suites import SUITES


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
    json: Json = False,
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
        tasks=None if asked.tasks is None else split_list(asked.tasks),
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
