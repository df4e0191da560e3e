"""Train: one head, which is returned, or a sweep, which is recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import nn

from probekit.base.machine import pick_device
from probekit.base.registry import PathName, choose, text_of, typed_name
from probekit.engines import Engine, check_workers, engine_of, runs_here
from probekit.errors import OptionError, PluginError
from probekit.features import Location
from probekit.probe.heads import HEADS, register_head
from probekit.probe.heads.contract import HeadSpec
from probekit.probe.heads.module_head import ModuleFactory
from probekit.results import Records
from probekit.results.log import predictions_folder
from probekit.results.record import BY_MEAN, BY_REFIT
from probekit.results.trackers import Tracking
from probekit.train.result import FitResult
from probekit.train.stream import default_memory
from probekit.train.sweeps.fitting import search
from probekit.train.sweeps.outputs import Outputs
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run_views import open_splits
from probekit.train.sweeps.specs import TrainSpec
from probekit.train.sweeps.sweeping import Sweeping, check_ablation
from probekit.train.sweeps.worker import GroupJob, fit_runs

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

GivenHead = str | HeadSpec | type[HeadSpec] | ModuleFactory


def spec_of(
    head: GivenHead, *, model: PathName, task: PathName, options: Mapping[str, Any] | None = None
) -> TrainSpec:
    """Return the spec of a run; a head that has no name yet is registered under that of its class.

    Args:
        head: a name with options; a `HeadSpec`; or the class of a module, or a function that makes
            one, as `register_head` takes it.
        model: the backbone, or the path of an entry.
        task: name of the task.
        options: any others of `TrainSpec`, by name.

    Raises:
        OptionError: a value cannot be used.
        UnknownNameError: there is no such option, head, ...
        PluginError: the head breaks its contract, has no name, or one that is taken.
    """
    others = {field.name: None for field in fields(TrainSpec)}
    for name in ("model", "task", "head"):
        del others[name]
    for name in options or {}:
        choose("training option", name, others)
    return TrainSpec(
        model=typed_name(model), task=typed_name(task), head=head_text(head), **options or {}
    )


def head_text(head: GivenHead) -> str:
    """Return how a head is typed; one that is not known yet is registered.

    Raises:
        OptionError: it is a module that has been made.
        PluginError: as for `spec_of`.
    """
    if isinstance(head, str):
        return head
    if isinstance(head, nn.Module):
        raise OptionError(
            f"head: found an instance of {type(head).__name__}; give its class, or a function "
            "that makes one, because every choice of layers and every seed needs a new head."
        )
    kind = head if isinstance(head, type) else type(head)
    if issubclass(kind, HeadSpec):
        if kind.name not in HEADS or HEADS[kind.name] is not kind:
            register_head(kind.name, kind)
        return text_of(head, HEADS) if isinstance(head, HeadSpec) else kind.name
    name = head.__name__ if isinstance(head, type) or hasattr(head, "__name__") else ""
    if not name.isidentifier():
        raise PluginError(
            f"head: {head!r} has no name for records and messages; give it one: "
            'probekit.register_head("mine", ...), then head="mine".'
        )
    register_head(name, cast(ModuleFactory, head))
    return name


def sweep(
    plan: TrainSpec | Sequence[TrainSpec],
    *,
    out: PathName,
    location: Location | None = None,
    workers: int = 1,
    engine: str | Engine = "local",
    memory: int | None = None,
    device: str = "auto",
    save: PathName | None = None,
    predictions: bool | Literal["new"] | None = None,
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
        plan: the runs, which ``specs.product`` makes; or one.
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
        predictions: write the dev and test predictions of each run beside ``out``; a run that was
            recorded without them is trained again, but not for ``new``. ``None`` is ``new`` for a
            plan with depths or methods, else ``False``.
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
    plan = [plan] if isinstance(plan, TrainSpec) else plan
    engine, out = engine_of(engine), Path(out)
    if ablate is not None:
        choose("way to leave a layer out", ablate, dict.fromkeys((BY_MEAN, BY_REFIT)))
    if trust_remote_code and all(spec.method is None for spec in plan):
        raise OptionError(
            "--trust-remote-code: no run of this plan runs a model (--method). Leave it out."
        )
    check_workers(workers)
    here = runs_here(engine)
    device = pick_device(device) if here else device  # which others have is theirs to say
    if memory is None:
        memory = default_memory(torch.device(device if here else "cpu"))
    job = GroupJob(
        out=out,
        location=Location() if location is None else location,
        device=device,
        memory=memory // workers,
        trust_remote_code=trust_remote_code,
    )
    tracking = None if track is None else Tracking.of(track, out)
    sweeping = Sweeping(
        job=job, start=engine, workers=workers, tracking=tracking, progress=progress
    )
    settled, trails = search(plan, sweeping.train)
    if ablate is not None:
        check_ablation(sweeping.resolved(settled.values()).values(), ablate)
    by_default = any(spec.depth is not None or spec.method is not None for spec in plan)
    write = by_default if predictions is None else bool(predictions)
    outputs = Outputs(
        save=None if save is None else Path(save),
        predictions=predictions_folder(out) if write else None,
        predictions_of_all=predictions is True,
        ablate=ablate == BY_MEAN,
        losses=ablate == BY_REFIT,
    )
    records = sweeping.train([settled[spec] for spec in plan], trails, outputs)
    if ablate == BY_REFIT:
        records = sweeping.fit_without(records)
    by_key = {record.key: record for record in records.values()}
    return Records(by_key.values(), dict.fromkeys(by_key, out))


def fit(
    spec: TrainSpec | None = None,
    *,
    head: GivenHead | None = None,
    task: PathName | None = None,
    model: "PathName | PreTrainedModel | None" = None,
    tokenizer: "PreTrainedTokenizerFast | None" = None,
    options: Mapping[str, Any] | None = None,
    location: Location | None = None,
    device: str = "auto",
    memory: int | None = None,
    ablate: bool = False,
    save: PathName | None = None,
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
        if not isinstance(model, str | PathLike):
            raise OptionError(
                "for a model in memory, name its entry as well: fit(TrainSpec(model=NAME, ...), "
                "model=MODEL, tokenizer=TOKENIZER)."
            )
        spec, model = spec_of(head, model=model, task=task, options=options), None
    elif (head, task, options) != (None, None, None) or isinstance(model, str | PathLike):
        raise OptionError("fit takes a TrainSpec, or head=, task=, model= and options=; not both.")
    splits = open_splits(spec, location)
    run = resolve(spec, splits)
    outputs = Outputs(save=None if save is None else Path(save), ablate=ablate).of_runs([run])
    in_memory = None
    if model is not None or tokenizer is not None:
        if spec.method is None:
            raise OptionError(
                "a head is trained from the cache, and the model in memory is not read: leave "
                "model= out, or give a method that runs it, such as method='full'."
            )
        from probekit.backbone import GivenModel  # with transformers

        in_memory = GivenModel.of(model, tokenizer, spec.model)
    ((_, result),) = fit_runs(
        [run],
        splits,
        outputs,
        device=device,
        memory=memory,
        predictions=True,
        given=in_memory,
        trust_remote_code=trust_remote_code,
    )
    return result
