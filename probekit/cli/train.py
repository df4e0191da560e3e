"""``probekit train``, ``sweep``, ``depth``: heads from the cache, or trained with their model."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.cli import arguments
from probekit.cli.crew import Crew
from probekit.cli.output import progress_wanted
from probekit.cli.protocol_option import read_protocol
from probekit.cli.record_tables import print_records
from probekit.cli.run_list import each, first_label, make_plan
from probekit.cli.spread import spread
from probekit.cli.training_options import Asked, Target, TrainingOptions

if TYPE_CHECKING:
    from probekit.results import Record

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RunsAsked:
    """The runs that a command asks for.

    Attributes:
        target: what they read.
        asked: the options of runs, as typed.
        shared: the options besides.
        ways: what else `sweep` is told: ``predictions``, ``workers``, ...
    """

    target: Target
    asked: Mapping[str, Any]
    shared: TrainingOptions
    ways: Mapping[str, Any]

    def carry_out(
        self,
        head: str | None,
        depths: Sequence[int | None],
        *,
        baselines: bool = False,
        by_depth: bool = False,
    ) -> None:
        """Train the runs, say where the records are, and print the scores.

        Args:
            head: heads, separated by commas; None is those of the protocol.
            depths: largest layers that a head may see; None is all.
            baselines: train what to hold them against too.
            by_depth: print one table by depth.
        """
        plan = make_plan(self.target, self.shared, self.asked, head=head, depths=depths)
        out = self.shared.out or self.target.default_out(first_label(self.asked))
        how = {
            "out": out,
            "location": self.target.location,
            "device": self.shared.device,
            "track": self.shared.track,
            "save": self.shared.save,
            "trust_remote_code": self.shared.trust_remote_code,
            "progress": progress_wanted(),
            **self.ways,
        }
        try:
            records = _with_baselines(plan, how) if baselines else _swept(plan, how)
        except BaseException:
            if baselines and out.is_file():  # the heads may be there although a baseline failed
                self._say_where(out)
            raise
        self._say_where(out)
        print_records(records, json=self.shared.json, by_depth=by_depth)

    def _say_where(self, out: Path) -> None:
        """Say where the records are, the losses without a layer and the saved heads, if any."""
        logger.info("records: %s", out)
        if self.ways.get("ablate") is not None:
            logger.info("losses without a layer: probekit table %s --of ablation", out)
        if self.shared.save is not None and self.shared.save.exists():
            logger.info("saved heads: %s", self.shared.save)


def _swept(plan: Sequence[Any], how: Mapping[str, Any]) -> "Sequence[Record]":
    from probekit.train.sweeps.run import sweep

    return sweep(plan, **how)


def _with_baselines(plan: Sequence[Any], how: Mapping[str, Any]) -> "Sequence[Record]":
    from probekit.train.baselines import run_baselines

    found = run_baselines(plan, **how)
    for note in found.notes:
        logger.info("%s", note)
    return [*found.guesses, *found.heads, *found.random]


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
    predictions: Predictions = False,
    ablate: Ablate = None,
    baselines: Annotated[
        bool,
        typer.Option("--baselines", help="Train what to hold it against, in the same table."),
    ] = False,
    workers: arguments.Workers = 1,
    own: arguments.OwnText,
    shared: TrainingOptions,
) -> None:
    """Train a head (or several) and print the scores: from the cache, or with --method its model.

    With --method the text, its labels and the model are those of an entry in the cache, and the
    model runs in every step. Finished runs are skipped.
    """
    target = Target.of(model, task, own, shared, asked["group"])
    ways = {"predictions": predictions, "ablate": ablate, "workers": workers}
    runs = RunsAsked(target=target, asked=asked, shared=shared, ways=ways)
    head = read_protocol(shared.protocol).heads[-1] if head is None else head
    runs.carry_out(head, [depth], baselines=baselines)


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
    predictions: Predictions = False,
    ablate: Ablate = None,
    crew: Crew,
    own: arguments.OwnText,
    shared: TrainingOptions,
) -> None:
    """Train every combination of comma-separated options; finished runs are skipped.

    Lists may be given for --head, --depth, {lists}.
    """
    target = Target.of(model, task, own, shared, asked["group"])
    ways = {"predictions": predictions, "ablate": ablate, **crew.ways}
    runs = RunsAsked(target=target, asked=asked, shared=shared, ways=ways)
    runs.carry_out(head, each(depth, int, "--depth"))


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
    predictions: Predictions = True,
    crew: Crew,
    own: arguments.OwnText,
    shared: TrainingOptions,
) -> None:
    """Train a head at every depth 0..L in one pass over the cache."""
    from probekit.train.sweeps.specs import depths

    target = Target.of(model, task, own, shared, asked["group"])
    ways = {"predictions": predictions, **crew.ways}
    runs = RunsAsked(target=target, asked=asked, shared=shared, ways=ways)
    n_blocks = target.splits(first_label(asked), asked["fit_on"]).manifest.n_blocks
    if head is None and not read_protocol(shared.protocol).name:
        head = "last"
    runs.carry_out(head, depths(n_blocks, every, asked["layers"]), by_depth=True)
