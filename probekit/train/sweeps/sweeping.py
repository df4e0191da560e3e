"""What a sweep does with a plan: it trains and records what nobody has yet, in groups."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from probekit.base.notices import ProgressBar
from probekit.engines import Engine
from probekit.results import Record, append_record, check_appendable, recorded
from probekit.results.claims import owners, tidy, wait_for_change
from probekit.results.tracking import Tracking
from probekit.train.sweeps.outputs import (
    OutputOptions,
    Outputs,
    check_ablation,
    with_ablation,
    without_each,
)
from probekit.train.sweeps.resolve import Run, resolve
from probekit.train.sweeps.run_groups import grouped, make_groups, member_bytes
from probekit.train.sweeps.run_views import open_once, opened_by
from probekit.train.sweeps.run_words import finished_text, run_names, waiting_text
from probekit.train.sweeps.search import Note, Trail
from probekit.train.sweeps.specs import TrainSpec
from probekit.train.sweeps.worker import GroupJob

logger = logging.getLogger(__name__)

_RECORDED = "%d of %d runs are recorded in %s"


@dataclass(frozen=True, kw_only=True)
class Sweeping:
    """What the trials of a sweep and its runs have in common: see ``run.sweep``.

    Attributes:
        job: a job of no runs yet, with the memory of one worker.
        start: the engine.
        workers: worker processes.
        tracking: what finished runs are shown by, if anything.
        progress: whether it is shown.
    """

    job: GroupJob
    start: Engine
    workers: int
    tracking: Tracking | None
    progress: bool

    def train(
        self,
        plan: Sequence[TrainSpec],
        trails: Mapping[TrainSpec, Trail] | None = None,
        wanted: OutputOptions | None = None,
    ) -> dict[TrainSpec, Record]:
        """Train what is not recorded, and return the record of every spec, in their order.

        Args:
            plan: the runs, with nothing left to be searched.
            trails: how the search of some specs went, for their records.
            wanted: what each of them leaves behind besides.
        """
        out = self.job.out
        found = self._resolved(plan)
        runs: dict[str, Run] = {}
        for run in found.values():  # two specs may be one run
            runs.setdefault(run.options.key, run)
        outputs = Outputs.of(list(runs.values()), out, wanted or OutputOptions())
        notes = {
            found[spec].options.key: Note(found[spec].spec.rate_from, trail)
            for spec, trail in (trails or {}).items()
        }
        names = {found[spec].options.key: name for spec, name in run_names(plan).items()}
        known = recorded(out)
        todo = [run for key, run in runs.items() if not outputs.are_there(key, known)]
        if len(todo) < len(runs):
            logger.info(_RECORDED, len(runs) - len(todo), len(runs), out)
        if todo:
            check_appendable(out)
        else:
            tidy(out)
        try:
            fresh = self._finish(todo, replace(self.job, outputs=outputs, notes=notes), names)
        except KeyboardInterrupt:
            logger.warning(_RECORDED, len(recorded(out).keys() & runs), len(runs), out)
            raise
        known = recorded(out) | fresh
        for key in runs:
            if key not in fresh:
                _note_again(runs[key], known, notes, out)
        return {spec: known[run.options.key] for spec, run in found.items()}

    def _resolved(self, plan: Iterable[TrainSpec]) -> dict[TrainSpec, Run]:
        """Return the run of every spec, in their order."""
        plan, found = list(plan), dict[TrainSpec, Run]()
        for opened, specs in grouped(plan, opened_by).items():
            # no name here holds the splits: `open_once` lets go of all but the last two
            open_splits_of = partial(open_once, self.job.sweep, opened, self.job.location)
            found |= {spec: resolve(spec, open_splits_of()) for spec in specs}
        return {spec: found[spec] for spec in plan}

    def check(self, plan: Iterable[TrainSpec], way: str) -> None:
        """Refuse a plan of which no layer can be left out; say which runs have none.

        Raises:
            OptionError: see `check_ablation`.
        """
        runs = list(self._resolved(plan).values())
        several = check_ablation(runs, way)
        whole = {run.member.head.name: None for run in runs if run not in several}
        if whole:
            logger.info("--ablate: %s: one layer is read, and none left out.", ", ".join(whole))

    def fit_without(self, records: Mapping[TrainSpec, Record]) -> dict[TrainSpec, Record]:
        """Fit all runs again without each of their layers; return their records with the losses."""
        runs = self._resolved(records)
        refits = {
            spec: without_each(run) for spec, run in runs.items() if len(run.options.layers) > 1
        }
        plan = [one for own in refits.values() for one in own.values()]
        refitted = self.train(plan, wanted=OutputOptions(losses=True))
        found = dict(records)
        for spec, own in refits.items():
            without = {layer: refitted[one] for layer, one in own.items()}
            found[spec] = with_ablation(records[spec], without)
            if found[spec] != records[spec]:
                append_record(self.job.out, found[spec])
        return found

    def _finish(
        self, todo: Sequence[Run], job: GroupJob, names: Mapping[str, str]
    ) -> dict[str, Record]:
        """Train runs until all are recorded, here or by other processes; return those from here."""
        fresh: dict[str, Record] = {}
        said = False
        while todo:
            others = owners(job.out, [run.options.key for run in todo])
            mine = [run for run in todo if run.options.key not in others]
            # others may die, or record a run without the saved head that is wanted here
            left = set(others)
            if mine:
                trained, left_again = self._run(mine, job, names)
                fresh |= trained
                left |= left_again
            else:
                if not said:
                    logger.info("%s", waiting_text(others))
                said = True
                wait_for_change(job.out, others)
            known = recorded(job.out)
            left = {key for key in left if not job.outputs.are_there(key, known)}
            todo = [run for run in todo if run.options.key in left]
        return fresh

    def _run(
        self, todo: Sequence[Run], job: GroupJob, names: Mapping[str, str]
    ) -> tuple[dict[str, Record], set[str]]:
        """Train runs in groups, and say of each when it is recorded.

        Returns:
            The records of the runs that were trained, and the keys of those left to others.
        """
        # of the memory of a group: at most half for heads, the rest for rows
        jobs = [
            replace(
                job,
                specs={run.options.key: run.spec for run in group},
                steps={run.options.key: run.steps for run in group},
                memory=max(job.memory - sum(map(member_bytes, group)), 0),
            )
            for group in make_groups(todo, workers=self.workers, memory=job.memory // 2)
        ]
        total = sum(run.steps for run in todo)
        fresh: dict[str, Record] = {}
        left: set[str] = set()
        with (
            ProgressBar(total=total, desc="train", unit="step", shown=self.progress) as bar,
            closing(self.start(jobs, workers=self.workers, report=bar.report)) as done,
        ):
            for _, found in done:
                if isinstance(found, str):
                    left.add(found)
                    continue
                fresh[found.key] = found  # the job has recorded it
                name, text = names[found.key], finished_text(found)
                logger.info("[%d/%d] %s: %s", len(fresh), len(todo), name, text)
                if self.tracking is not None:
                    self.tracking.follow(found, name)
        return fresh, left


def _note_again(run: Run, known: dict[str, Record], notes: Mapping[str, Note], out: Path) -> None:
    """Record a run anew that was there, where this plan says more of it: it trains nothing.

    The run that was there may have been a trial, or one without a layer of another, or have had its
    rate from the user.
    """
    key = run.options.key
    record = known[key]
    left_out = None if run.spec.left_out is None else record.left_out
    noted = replace(record, trial=record.trial and run.spec.trial, left_out=left_out)
    if key in notes:  # of two specs that are one run, the searched one counts
        noted = notes[key].on(noted)
    if noted != record:
        known[key] = noted
        append_record(out, noted)
