"""What ``train``, ``sweep`` and ``depth`` plan, and how it is trained: together where it can be."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probekit.cli import arguments
from probekit.cli.output import progress_wanted
from probekit.cli.record_tables import print_records
from probekit.cli.training_options import Target, TrainingOptions
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.results import Record
    from probekit.train.sweeps.specs import TrainSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PlannedRuns:
    """The runs that a command, or a table of a plan file, asks for.

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

    def goes_with(self, other: "PlannedRuns") -> bool:
        """Say whether one sweep trains both: from one place, to one file, in one way."""
        if self.baselines or other.baselines:  # which are of one model, task and label column
            return False
        return (self.where, self.out, self.ways) == (other.where, other.out, other.ways)

    @property
    def where(self) -> dict[str, Any]:
        """Where heads are trained, from what, and who is told."""
        return {
            "location": self.target.location,
            "memory": arguments.parse_bytes(self.shared.memory, "--memory"),
            "device": self.shared.device,
            "track": self.shared.track,
        }

    def train(self) -> "list[Record]":
        """Train the runs, and say where the records are."""
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
        say_where(self.out, self.ways.get("save"), self.ways.get("ablate"))


def carry_out(planned: Sequence[PlannedRuns]) -> None:
    """Train all that was planned, and print the scores.

    Runs that read from one place and are recorded in one file are one sweep. Where there are
    several sweeps, all runs are checked against the cache before the first one is trained.

    Raises:
        OptionError: two sweeps would save their heads in one folder; or an option of a run.
    """
    sweeps: list[PlannedRuns] = []
    for one in planned:
        for place, other in enumerate(sweeps):
            if other.goes_with(one):
                sweeps[place] = replace(other, plan=[*other.plan, *one.plan])
                break
        else:
            sweeps.append(one)
    if len(sweeps) > 1:
        sweeps = _apart(sweeps)
        _check(sweeps)
    records = {record.key: record for one in sweeps for record in one.train()}
    print_records(
        list(records.values()),
        json=any(one.shared.json for one in planned),
        by_depth=all(one.by_depth for one in planned),
    )


def _apart(sweeps: Sequence[PlannedRuns]) -> list[PlannedRuns]:
    """Return sweeps of which each saves its heads in a folder of its own.

    Raises:
        OptionError: two are of one model and task.
    """
    from probekit.store.layout import model_slug
    from probekit.tasks.task import slugify

    found, taken = [], set()
    for one in sweeps:
        if (save := one.ways.get("save")) is None:
            found.append(one)
            continue
        folder = save / model_slug(one.target.model) / slugify(one.target.task)
        if folder in taken:
            raise OptionError(
                f"--save {save}: two parts of the plan would save heads of {one.target.model} "
                f"{one.target.task} in {folder}; give each a save of its own, or one out."
            )
        taken.add(folder)
        found.append(replace(one, ways={**one.ways, "save": folder}))
    return found


def _check(sweeps: Sequence[PlannedRuns]) -> None:
    """Refuse what cannot be trained before anything is."""
    from probekit.train.sweeps.run import check_runs

    for one in sweeps:
        check_runs(one.plan, one.target.location)


def say_where(out: Path, save: Path | None = None, ablate: str | None = None) -> None:
    """Say where the records are, the losses without a layer and the saved heads, if any."""
    logger.info("records: %s", out)
    if ablate is not None:
        logger.info("losses without a layer: probekit table %s --of ablation", out)
    if save is not None and save.exists():
        logger.info("saved heads: %s", save)
