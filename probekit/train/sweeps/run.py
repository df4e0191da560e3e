"""Train: one head, which is returned, or a sweep, which is recorded.

A sweep skips what is recorded or trained elsewhere, groups the rest and records it.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from probekit.base.machine.hardware import pick_device
from probekit.base.notices import ProgressBar
from probekit.base.registry import choose
from probekit.engines import Engine, engine_of, made_ready, runs_here
from probekit.errors import OptionError
from probekit.features import Location, open_features
from probekit.results import Record, Records, append_record, check_appendable, recorded
from probekit.results.claims import owners, wait_for_change
from probekit.results.record import BY_MEAN, BY_REFIT
from probekit.results.tracking import Tracking
from probekit.store.objects.object_path import check_seen_by_others, root_of
from probekit.train.residency import default_memory
from probekit.train.result import FitResult
from probekit.train.sweeps.given_heads import GivenHead, in_memory, named, spec_of
from probekit.train.sweeps.left_out_layers import check_ablation, with_ablation, without_each
from probekit.train.sweeps.outputs import OutputOptions, Outputs
from probekit.train.sweeps.resolve import Run, resolve
from probekit.train.sweeps.run_groups import grouped, make_groups, member_bytes
from probekit.train.sweeps.run_views import open_once, open_splits, opened_by
from probekit.train.sweeps.run_words import finished_text, run_names, waiting_text
from probekit.train.sweeps.search import Note, Trail, search
from probekit.train.sweeps.specs import TrainSpec
from probekit.train.sweeps.worker import GroupJob, fit_runs, open_method

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

_RECORDED = "%d of %d runs are recorded in %s"


def sweep(
    plan: Sequence[TrainSpec],
    *,
    out: str | Path,
    location: Location | None = None,
    workers: int = 1,
    engine: str | Engine = "local",
    memory: int | None = None,
    device: str = "auto",
    save: str | Path | None = None,
    predictions: bool = False,
    ablate: str | None = None,
    track: str | None = None,
    progress: bool = False,
    trust_remote_code: bool = False,
) -> Records:
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
        engine: what runs them, or its name in ``probekit.engines.ENGINES``.
        memory: bytes that all workers together may use for heads and rows; ``None`` is half of
            what is free now, on the device that computes, or on this machine where workers run on
            others.
        device: ``cpu``, ``cuda``, ``cuda:1``; ``auto`` is CUDA where there is some, else the CPU.
        save: folder to save the trained heads in: one run is saved in it, several in a folder
            each. A run without its saved head is trained again; its folder may hold one of the
            same task, label and head, which is replaced, but no other.
        predictions: write the dev and test predictions of each run beside ``out``.
        ablate: record what leaving out each layer adds to the loss on dev, of heads that read
            several: ``mean`` puts in its place the mean of its rows in training, as the head reads
            them, and fits nothing again; ``refit`` fits the head again on the other layers, with
            the same options and a strength of L2 that is chosen anew, in runs that are recorded in
            the same file and that tables leave out. None leaves none out. A run that was recorded
            without ``mean`` is trained again.
        track: a name of ``TRACKERS``, with options (``tensorboard:curves=true``), that is shown
            every run that is trained here, once it is recorded. If it fails, that is said, and the
            sweep goes on.
        progress: show progress on stderr, counting the steps of all runs.
        trust_remote_code: run code that lies with the model that runs with a method train.

    Returns:
        The records of the plan, in its order, new and old; no trials, and no runs without a layer.

    Raises:
        OptionError: an option cannot be used, or ``save`` holds the head of another run, or the
            tracker cannot be used.
        EntryNotFoundError: the cache does not hold the features.
        DataError: labels are missing, or do not fit.
        RecordError: ``out`` is no records file, or a saved head to start from is damaged.
        MissingFileError: a saved head to start from is not there.
        StorageError: records, predictions or heads cannot be written.
        EngineError: a worker process died, or a cluster cannot be used.
    """
    engine = engine_of(engine)
    start = made_ready(engine, Path(out).parent)
    if ablate is not None:
        choose("way to leave a layer out", ablate, dict.fromkeys((BY_MEAN, BY_REFIT)))
    if trust_remote_code and all(spec.method is None for spec in plan):
        raise OptionError(
            "--trust-remote-code: no run of this plan runs a model (--method). Leave it out."
        )
    if workers < 1:
        raise OptionError(f"--workers must be at least 1; found {workers}.")
    here = runs_here(engine)
    if location is not None and not (here and workers == 1):
        check_seen_by_others(root_of(location.cache))
    device = pick_device(device) if here else device  # which others have is theirs to say
    if memory is None:
        memory = default_memory(torch.device(device if here else "cpu"))
    job = GroupJob(
        out=Path(out),
        location=Location() if location is None else location,
        device=device,
        memory=memory // workers,
        trust_remote_code=trust_remote_code,
    )
    tracking = None if track is None else Tracking.of(track, Path(out))
    sweeping = _Sweep(job=job, start=start, workers=workers, tracking=tracking, progress=progress)
    found, trails = search(plan, sweeping.train)
    settled = [found[spec] for spec in plan]
    if ablate is not None:
        sweeping.check(settled, ablate)
    wanted = OutputOptions(
        save=None if save is None else Path(save),
        predictions=predictions,
        ablate=ablate == BY_MEAN,
        losses=ablate == BY_REFIT,
    )
    records = sweeping.train(settled, trails, wanted)
    if ablate == BY_REFIT:
        records = sweeping.fit_without(records)
    by_key = {record.key: record for record in records.values()}
    return Records(by_key.values(), dict.fromkeys(by_key, Path(out)))


def check_runs(plan: Sequence[TrainSpec], location: Location) -> None:
    """Settle every run of a plan against the cache, and train nothing.

    Raises:
        OptionError: an option cannot be used.
        EntryNotFoundError: the cache does not hold the features.
        DataError: labels are missing, or do not fit.
    """
    for opened, specs in grouped(list(plan), opened_by).items():
        splits = open_features(location=location, classes=opened[1], **vars(opened[0]))
        for spec in specs:
            unsearched: dict[str, Any] = dict.fromkeys(spec.searched)
            resolve(replace(spec, **unsearched), splits)


def fit(
    spec: TrainSpec | None = None,
    *,
    head: GivenHead | None = None,
    task: str | None = None,
    model: "str | Path | PreTrainedModel | None" = None,
    tokenizer: "PreTrainedTokenizerFast | None" = None,
    options: Mapping[str, Any] | None = None,
    location: Location | None = None,
    device: str = "auto",
    memory: int | None = None,
    ablate: bool = False,
    save: str | Path | None = None,
    trust_remote_code: bool = False,
) -> FitResult:
    """Train one head: of a spec, or of a head, a task and a model.

    Args:
        spec: all options; what is ``None`` takes its default.
        head: in place of a spec a name with options, a `HeadSpec`, or the class of any
            ``torch.nn.Module`` from (rows, layers, dim) to (rows, width), or a function that makes
            one: see `register_head`.
        task: name of the task.
        model: the backbone, or the path of an entry; beside a spec with a method, the model in
            memory that the spec names: a copy of it is trained.
        tokenizer: of the model in memory.
        options: any other options of `TrainSpec`, by name, such as ``{"epochs": 5}``.
        location: where entries and labels lie; ``None`` is the folder ``cache``.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        memory: bytes that rows may take; more are streamed. ``None`` is half of what is free.
        ablate: find what the loss on dev gains when the rows of a layer are their mean in training.
        save: folder to save the trained head in, for `TrainedHead` and `predict`.
        trust_remote_code: run code that lies with the model that a method trains.

    Returns:
        The trained state, scores, learning curve, layer weights and predictions.

    Raises:
        OptionError: an option cannot be used, or ``save`` holds the head of another run.
        BackboneError: the model that a method trains is not that of the entry.
        PluginError: the head breaks its contract, or has a name that is taken.
        EntryNotFoundError: the cache does not hold the features.
        DataError: labels are missing, or do not fit.
        MissingFileError: no saved head lies where the run should start from one.
        RecordError: it is damaged.
        StorageError: the head cannot be saved.
    """
    if spec is None:
        if head is None or task is None or model is None:
            raise OptionError("fit needs a TrainSpec, or head=, task= and model=.")
        spec, model = spec_of(head, model=named(model), task=task, options=options), None
    elif (head, task, options) != (None, None, None) or isinstance(model, str | Path):
        raise OptionError("fit takes a TrainSpec, or head=, task=, model= and options=; not both.")
    splits = open_splits(spec, location)
    run = resolve(spec, splits)
    wanted = OutputOptions(save=None if save is None else Path(save))
    outputs = Outputs.of([run], Path(), wanted)
    given = in_memory(spec, model, tokenizer)
    live = open_method([run], splits, device, given, trust_remote_code=trust_remote_code)
    ((_, result),) = fit_runs(
        [run],
        splits,
        live=live,
        device=device,
        memory=memory,
        predictions=True,
        ablate=ablate,
        report=lambda news: None,
    )
    outputs.write(run, result, splits, live)
    return result


@dataclass(frozen=True, kw_only=True)
class _Sweep:
    """What the trials of a sweep and its runs have in common: see `sweep`.

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
