"""Probes of every depth with their predictions, and refits of them on bootstrap resamples."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from probekit.base.registry import flag
from probekit.engines import Engine
from probekit.errors import OptionError
from probekit.features import Location
from probekit.metrics import METRICS
from probekit.probe.fitters import solves
from probekit.results import Record, Records
from probekit.results.overthinking.depth_curves import metric_of_classes, resample_of, strength_of
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.run_groups import grouped
from probekit.train.sweeps.run_views import open_splits, opened_by
from probekit.train.sweeps.specs import TrainSpec


def sweep_depths(
    plan: Sequence[TrainSpec],
    *,
    out: str | Path,
    location: Location | None = None,
    refits: bool = True,
    workers: int = 1,
    engine: str | Engine = "local",
    memory: int | None = None,
    device: str = "auto",
    track: str | None = None,
    progress: bool = False,
) -> Records:
    """Train the probes of every depth that ``out`` has no record of, with their predictions.

    Each earlier depth, and the last one as often, is then fitted again on bootstrap resamples of
    the drawn sentences: depth d and the last one on the same resample ``resample_of(d)``. Where a
    solver chose the strength of L2, its refits have the strength of the probe that they refit, so
    that nothing is chosen on a resample.

    Args:
        plan: runs of several depths each.
        out: the records file.
        location: where entries and labels lie.
        refits: fit on resamples as well.
        workers: worker processes.
        engine: what runs them, or its name in ``probekit.engines.ENGINES``.
        memory: bytes to use.
        device: what computes.
        track: a tracker that is shown the probes, as in `sweep`; the refits serve these.
        progress: show progress on stderr.

    Returns:
        The records of the probes, then those of the refits.

    Raises:
        OptionError: an option cannot be used, such as a rate that is to be searched.
        RecordError: labels are no classes; and whatever `sweep` raises.
    """
    if searched := [name for spec in plan for name in spec.searched]:
        raise OptionError(
            f"{flag(searched[0])} search: probes of every depth are refitted with the options that "
            "they have; search with `probekit depth` first, and give what was found."
        )
    for specs in grouped(plan, opened_by).values():
        spec = specs[0]
        metric = METRICS[open_splits(spec, location).metric]
        metric_of_classes(metric, f"{spec.model} {spec.task or ''}")
    train = partial(
        sweep,
        out=out,
        location=location,
        workers=workers,
        engine=engine,
        memory=memory,
        device=device,
        predictions=True,
        progress=progress,
    )
    probes = train(plan, track=track)
    if not refits:
        return probes
    again = refit_plan(plan, {record.key: record for record in probes}, location)
    records = [*probes, *(train(again) if again else [])]
    return Records(records, {record.key: Path(out) for record in records})


def refit_plan(
    plan: Sequence[TrainSpec], probes: dict[str, Record], location: Location | None
) -> list[TrainSpec]:
    """Return the refits of probes that are recorded.

    Args:
        plan: the probes.
        probes: their records, by key.
        location: where entries and labels lie.
    """
    found: list[TrainSpec] = []
    for specs in grouped(plan, opened_by).values():
        splits = open_splits(specs[0], location)
        settled = {}
        for run in (resolve(spec, splits) for spec in specs):
            spec = run.spec
            if solves(spec.fit):
                strength = strength_of(probes[run.options.key])
                spec = replace(spec, select=None, l2=strength)
            settled[run.spec] = spec
        for curve in grouped(settled, lambda spec: replace(spec, depth=None)).values():
            last = max(curve, key=lambda spec: spec.depth or 0)
            for spec in curve:
                if spec.depth is not None and spec is not last:
                    number = resample_of(spec.depth)
                    found += [replace(settled[one], resample=number) for one in (spec, last)]
    return list(dict.fromkeys(found))
