"""``probekit train``, ``sweep``, ``depth``: heads from the cache; ``finetune``: with the model."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.cli import arguments
from probekit.cli.crew import Crew
from probekit.cli.output import progress_wanted
from probekit.cli.record_tables import print_records
from probekit.cli.run_list import each, first_label, make_plan
from probekit.cli.spread import spread
from probekit.cli.training_options import Asked, Target, TrainingOptions
from probekit.train.sweeps.protocols import get_protocol

if TYPE_CHECKING:
    from probekit.results import Record
    from probekit.train.sweeps.specs import TrainSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PlannedRuns:
    """The runs that a command asks for.

    Attributes:
        plan: the runs.
        target: what they read.
        out: the records file.
        shared: the options besides those of runs.
        ways: what else `sweep` is told: ``save``, ``predictions``, ``workers``, ...
        baselines: whether they are trained with what to hold them against.
        by_depth: whether their table is one by depth.
    """

    plan: "Sequence[TrainSpec]"
    target: Target
    out: Path
    shared: TrainingOptions
    ways: Mapping[str, Any]
    baselines: bool = False
    by_depth: bool = False

    @property
    def where(self) -> dict[str, Any]:
        """Where heads are trained, from what, and who is told."""
        return {
            "location": self.target.location,
            "memory": arguments.parse_bytes(self.shared.memory, "--memory"),
            "device": self.shared.device,
            "track": self.shared.track,
        }

    def carry_out(self) -> None:
        """Train the runs, say where the records are, and print the scores."""
        print_records(self._train(), json=self.shared.json, by_depth=self.by_depth)

    def _train(self) -> "list[Record]":
        from probekit.train.baselines import run_baselines
        from probekit.train.sweeps.run import sweep

        how = {**self.where, **self.ways, "progress": progress_wanted()}
        if not self.baselines:
            records = sweep(self.plan, out=self.out, **how)
            self._say_where()
            return records
        try:
            found = run_baselines(self.plan, out=self.out, **how)
        finally:  # the heads may be there although a baseline failed
            if self.out.is_file():
                self._say_where()
        for note in found.notes:
            logger.info("%s", note)
        return [*found.guesses, *found.heads, *found.random]

    def _say_where(self) -> None:
        """Say where the records are, the losses without a layer and the saved heads, if any."""
        save = self.ways.get("save")
        logger.info("records: %s", self.out)
        if self.ways.get("ablate") is not None:
            logger.info("losses without a layer: probekit table %s --of ablation", self.out)
        if save is not None and save.exists():
            logger.info("saved heads: %s", save)


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
    workers: arguments.Workers = 1,
    trust_remote_code: arguments.TrustRemoteCode = False,
    own: arguments.OwnData,
    shared: TrainingOptions,
) -> None:
    """Train a head (or several) from the cache and print the scores."""
    target = Target.of(model, task, own, shared, asked["group"])
    head = get_protocol(shared.protocol).heads[-1] if head is None else head
    plan = make_plan(target, shared, asked, head=head, depths=[depth])
    out = shared.out or target.default_out(first_label(asked))
    ways = {"save": save, "predictions": predictions, "ablate": ablate, "workers": workers}
    ways["trust_remote_code"] = trust_remote_code
    PlannedRuns(
        plan=plan, target=target, out=out, shared=shared, ways=ways, baselines=baselines
    ).carry_out()


@spread
def finetune(
    model: arguments.Model,
    task: arguments.OptionalTask = None,
    *,
    head: Annotated[
        str | None,
        typer.Option("--head", help="Heads, separated by commas.", show_default="last"),
    ] = None,
    depth: Annotated[
        str | None,
        typer.Option("--depth", help="Cut the model to so many blocks; several with commas."),
    ] = None,
    asked: Asked,
    save: Save = None,
    predictions: Predictions = False,
    workers: arguments.Workers = 1,
    trust_remote_code: arguments.TrustRemoteCode = False,
    own: arguments.OwnData,
    shared: TrainingOptions,
) -> None:
    """Train heads together with the model: --method full, if none is named.

    The text, its labels and the model are those of an entry in the cache. Its rows are read by
    --start solved alone.
    Finished runs are skipped. Lists may be given for --head, --depth, {lists}.
    """
    target = Target.of(model, task, own, shared, asked["group"])
    if not get_protocol(shared.protocol).tunes:  # else its method is the default
        asked = {**asked, "method": asked["method"] or "full"}
    head = "last" if head is None and shared.protocol is None else head
    ways = {"save": save, "predictions": predictions, "workers": workers}
    ways["trust_remote_code"] = trust_remote_code
    return _combinations(target, shared, asked, head=head, depth=depth, ways=ways)


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
    crew: Crew,
    trust_remote_code: arguments.TrustRemoteCode = False,
    own: arguments.OwnData,
    shared: TrainingOptions,
) -> None:
    """Train every combination of comma-separated options; finished runs are skipped.

    Lists may be given for --head, --depth, {lists}.
    """
    target = Target.of(model, task, own, shared, asked["group"])
    ways = {"save": save, "predictions": predictions, "ablate": ablate, **crew.ways}
    ways["trust_remote_code"] = trust_remote_code
    return _combinations(target, shared, asked, head=head, depth=depth, ways=ways)


def _combinations(
    target: Target,
    shared: TrainingOptions,
    asked: Mapping[str, Any],
    *,
    head: str | None,
    depth: str | None,
    ways: Mapping[str, Any],
) -> None:
    """Plan every combination of comma-separated options."""
    plan = make_plan(target, shared, asked, head=head, depths=each(depth, int, "--depth"))
    out = shared.out or target.default_out(first_label(asked))
    PlannedRuns(plan=plan, target=target, out=out, shared=shared, ways=ways).carry_out()


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
    crew: Crew,
    trust_remote_code: arguments.TrustRemoteCode = False,
    own: arguments.OwnData,
    shared: TrainingOptions,
) -> None:
    """Train a head at every depth 0..L in one pass over the cache."""
    from probekit.train.sweeps.specs import depths

    target = Target.of(model, task, own, shared, asked["group"])
    label = first_label(asked)
    plan = make_plan(
        target,
        shared,
        asked,
        head="last" if head is None and shared.protocol is None else head,
        depths=depths(
            target.splits(label, asked["fit_on"]).manifest.n_blocks, every, asked["layers"]
        ),
    )
    out = shared.out or target.default_out(label)
    ways = {"save": save, "predictions": predictions, **crew.ways}
    ways["trust_remote_code"] = trust_remote_code
    PlannedRuns(
        plan=plan, target=target, out=out, shared=shared, ways=ways, by_depth=True
    ).carry_out()
