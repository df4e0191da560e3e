"""Train: one head, which is returned, or a sweep, which is recorded.

A sweep skips what is recorded or trained elsewhere, groups the rest and records it.
"""

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from probekit.base.machine.hardware import pick_device
from probekit.base.notices import ProgressBar
from probekit.base.registry import choose
from probekit.engines import ENGINES, Engine
from probekit.errors import OptionError
from probekit.features import Location
from probekit.results import Record, append_record, check_appendable, recorded
from probekit.results.claims import owners, wait_for_change
from probekit.train.residency import default_memory
from probekit.train.result import FitResult
from probekit.train.sweeps.outputs import Outputs
from probekit.train.sweeps.resolve import Run, resolve
from probekit.train.sweeps.run_groups import make_groups, member_bytes
from probekit.train.sweeps.run_views import Opened, open_once, open_splits, opened_by
from probekit.train.sweeps.run_words import finished_text, run_names, waiting_text
from probekit.train.sweeps.search import Note, Trail, search
from probekit.train.sweeps.specs import TrainSpec
from probekit.train.sweeps.worker import GroupJob, fit_runs

logger = logging.getLogger(__name__)


def sweep(
    plan: Sequence[TrainSpec],
    *,
    out: str | Path,
    location: Location | None = None,
    workers: int = 1,
    engine: str = "local",
    memory: int | None = None,
    device: str = "auto",
    save: str | Path | None = None,
    predictions: bool = False,
    progress: bool = False,
) -> list[Record]:
    """Train every run of a plan that ``out`` has no record of.

    Records are appended to ``out`` as soon as a group of runs is finished, so a sweep that was
    stopped goes on where it was when it is started again. Ctrl-C records those of a group that are
    finished. Other processes may run the same sweep on the same file: each run is claimed by one of
    them, and this returns when all are recorded, waiting for those of others at the end. Where a
    spec leaves its learning rate or weight decay to a search, the trials come first, and are
    recorded as trials in the same file.

    Args:
        plan: the runs; ``specs.product`` makes them.
        out: the records file.
        location: where entries and labels lie.
        workers: worker processes.
        engine: a name of ``ENGINES``.
        memory: bytes that all workers together may use for heads and rows; ``None`` is half of
            what is free now, on the device that computes.
        device: ``cpu``, ``cuda``, ``cuda:1``; ``auto`` is CUDA where there is some, else the CPU.
        save: folder to save the trained heads in: one run is saved in it, several in a folder
            each. A run without its saved head is trained again; its folder may hold one of the
            same task, label and head, which is replaced, but no other.
        predictions: write the dev and test predictions of each run beside ``out``.
        progress: show progress on stderr, counting the steps of all runs.

    Returns:
        The records of the plan, in its order, new and old; no trials.

    Raises:
        OptionError: an option cannot be used, or ``save`` holds the head of another run.
        EntryNotFoundError: the cache does not hold the features.
        DataError: labels are missing, or do not fit.
        RecordError: ``out`` is no records file, or a saved head to start from is damaged.
        MissingFileError: a saved head to start from is not there.
        StorageError: records, predictions or heads cannot be written.
        EngineError: a worker process died.
    """
    start = choose("engine", engine, ENGINES)
    if workers < 1:
        raise OptionError(f"--workers must be at least 1; found {workers}.")
    device = pick_device(device)
    if memory is None:
        memory = default_memory(torch.device(device))
    sweeping = _Sweep(
        file=Path(out),
        location=Location() if location is None else location,
        start=start,
        workers=workers,
        memory=memory,
        device=device,
        progress=progress,
    )
    found, trails = search(plan, sweeping.train)
    settled = [found[spec] for spec in plan]
    folder = None if save is None else Path(save)
    records = sweeping.train(settled, trails, save=folder, predictions=predictions)
    return list({record.key: record for record in records.values()}.values())


def fit(
    spec: TrainSpec,
    *,
    location: Location | None = None,
    device: str = "auto",
    memory: int | None = None,
) -> FitResult:
    """Train one head from the cache.

    Args:
        spec: the options; what is ``None`` takes its default.
        location: where entries and labels lie; ``None`` is the folder ``cache``.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        memory: bytes that rows may take; more are streamed. ``None`` is half of what is free.

    Returns:
        The trained state, scores, learning curve, layer weights and predictions.

    Raises:
        OptionError: an option cannot be used.
        EntryNotFoundError: the cache does not hold the features.
        DataError: labels are missing, or do not fit.
        MissingFileError: no saved head lies where the run should start from one.
        RecordError: it is damaged.
    """
    splits = open_splits(spec, location)
    ((_, result),) = fit_runs(
        [resolve(spec, splits)],
        splits,
        device=device,
        memory=memory,
        predictions=True,
        report=lambda news: None,
    )
    return result


@dataclass(frozen=True, kw_only=True)
class _Sweep:
    """What the trials of a sweep and its runs have in common: see `sweep`."""

    file: Path
    location: Location
    start: Engine
    workers: int
    memory: int
    device: str
    progress: bool
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def train(
        self,
        plan: Sequence[TrainSpec],
        trails: Mapping[TrainSpec, Trail] | None = None,
        *,
        save: Path | None = None,
        predictions: bool = False,
    ) -> dict[TrainSpec, Record]:
        """Train what is not recorded, and return the record of every spec, in their order.

        Args:
            plan: the runs, with nothing left to be searched.
            trails: how the search of some specs went, for their records.
            save: as in `sweep`.
            predictions: as in `sweep`.
        """
        found = _resolve(plan, self.location, self.name)
        runs = _distinct(found.values())
        outputs = Outputs.of(runs, self.file, save, predictions)
        notes = {
            found[spec].options.key: Note(found[spec].spec.rate_from, trail)
            for spec, trail in (trails or {}).items()
        }
        names = {found[spec].options.key: name for spec, name in run_names(plan).items()}
        todo = _missing(runs, recorded(self.file), outputs, self.file)
        try:
            fresh = self._finish(todo, outputs, notes, names)
        except KeyboardInterrupt:
            there = recorded(self.file).keys() & {run.options.key for run in runs}
            logger.warning("%d of %d runs are recorded in %s", len(there), len(runs), self.file)
            raise
        known = recorded(self.file) | fresh
        for run in runs:
            if run.options.key not in fresh:
                _note_again(run, known, notes, self.file)
        return {spec: known[run.options.key] for spec, run in found.items()}

    def _finish(
        self,
        todo: Sequence[Run],
        outputs: Outputs,
        notes: Mapping[str, Note],
        names: Mapping[str, str],
    ) -> dict[str, Record]:
        """Train runs until all are recorded, here or by other processes; return those from here."""
        fresh: dict[str, Record] = {}
        said = False
        while todo:
            others = owners(self.file, [run.options.key for run in todo])
            mine = [run for run in todo if run.options.key not in others]
            left = set(others)
            if mine:
                trained, left_again = self._run(mine, outputs, notes, names)
                fresh |= trained
                left |= left_again
            else:
                if not said:
                    logger.info("%s", waiting_text(others))
                said = True
                wait_for_change(self.file, others)
            known = recorded(self.file)
            keys = {key for key in left if not outputs.are_there(key, known)}
            todo = [run for run in todo if run.options.key in keys]
        return fresh

    def _run(
        self,
        todo: Sequence[Run],
        outputs: Outputs,
        notes: Mapping[str, Note],
        names: Mapping[str, str],
    ) -> tuple[dict[str, Record], set[str]]:
        """Train runs in groups, and say of each when it is recorded.

        Returns:
            The records of the runs that were trained, and the keys of those left to others.
        """
        share = self.memory // self.workers  # of a group: at most half for heads, the rest for rows
        groups = make_groups(todo, workers=self.workers, memory=share // 2)
        shared = GroupJob(
            specs={},
            steps={run.options.key: run.steps for run in todo},
            out=self.file,
            notes=notes,
            location=self.location,
            device=self.device,
            memory=share,
            outputs=outputs,
            sweep=self.name,
        )
        jobs = [_job_of(group, shared) for group in groups]
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
        return fresh, left


def _note_again(run: Run, known: dict[str, Record], notes: Mapping[str, Note], out: Path) -> None:
    """Record a run anew that was there, where this plan says more of it: it trains nothing.

    The run that was there may have been a trial, or have had its rate from the user.
    """
    key = run.options.key
    record = known[key]
    noted = replace(record, trial=record.trial and run.spec.trial)
    if key in notes:  # of two specs that are one run, the searched one counts
        noted = notes[key].on(noted)
    if noted != record:
        known[key] = noted
        append_record(out, noted)


def _distinct(runs: Iterable[Run]) -> list[Run]:
    """Return each record key once, the first of its runs."""
    found: dict[str, Run] = {}
    for run in runs:
        found.setdefault(run.options.key, run)
    return list(found.values())


def _job_of(group: Sequence[Run], shared: GroupJob) -> GroupJob:
    """Return the job of a group, whose rows have the memory that its heads leave."""
    left = max(shared.memory - sum(map(member_bytes, group)), 0)
    return replace(shared, specs={run.options.key: run.spec for run in group}, memory=left)


def _resolve(plan: Sequence[TrainSpec], location: Location, sweep: str) -> dict[TrainSpec, Run]:
    """Settle every spec, in the order of the plan; two of them may be one run."""
    wanted: dict[Opened, list[TrainSpec]] = {}
    for spec in plan:
        wanted.setdefault(opened_by(spec), []).append(spec)
    found: dict[TrainSpec, Run] = {}
    for opened, specs in wanted.items():  # one after the other: few are held open
        splits = open_once(sweep, opened, location)
        found |= {spec: resolve(spec, splits) for spec in specs}
    return {spec: found[spec] for spec in plan}


def _missing(
    runs: Sequence[Run], known: dict[str, Record], outputs: Outputs, out: Path
) -> list[Run]:
    """Return the runs that are to be trained, and say how many are not."""
    todo = [run for run in runs if not outputs.are_there(run.options.key, known)]
    if len(todo) < len(runs):
        logger.info("%d of %d runs are recorded in %s", len(runs) - len(todo), len(runs), out)
    if todo:
        check_appendable(out)
    return todo
