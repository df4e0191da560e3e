"""The probes of one setting at every depth, and the refits of them on bootstrap resamples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from probekit.errors import RecordError
from probekit.metrics import Metric
from probekit.metrics.contract import ClassMetric
from probekit.results.comparison.pairing import check_kept, recorded_metric
from probekit.results.comparison.resampled_groups import Drawn
from probekit.results.comparison.runs import RecordedRun
from probekit.results.record import Record
from probekit.results.summaries.grouping import Key, check_seeds, grouped, key_of, series
from probekit.results.summaries.wording import OPTIONS

_OF_REFIT = ("depth", "layers", "resample", "select", "l2")
"""What a refit and the probe that it refits may differ in; the strength is compared by itself."""

_TASK = ("model", "task", "label")
_HEAD = (*_TASK, "head")

_AGAIN = "run `probekit depth MODEL TASK` with the options of these runs"


@dataclass(frozen=True, kw_only=True)
class DepthCurve:
    """The records of a head at every depth, which differ in depth and seed alone.

    Attributes:
        name: the head, and what else tells it from the other curves of its task.
        probes: runs of each depth, ascending; a record per seed.
        refits: of each depth but the last, its probe fitted on the resample ``resample_of(depth)``;
            empty where none were asked for.
        chance: by the same depths, the probe of the *last* depth fitted on that resample.
    """

    name: str
    probes: Mapping[int, RecordedRun]
    refits: Mapping[int, RecordedRun] = field(default_factory=dict)
    chance: Mapping[int, RecordedRun] = field(default_factory=dict)

    @property
    def depths(self) -> tuple[int, ...]:
        """All depths, ascending."""
        return tuple(self.probes)

    @property
    def last(self) -> int:
        """The last depth: that of the whole model."""
        return self.depths[-1]

    @property
    def records(self) -> list[Record]:
        """The probes' records."""
        return [record for run in self.probes.values() for record in run.records]

    @property
    def runs(self) -> list[RecordedRun]:
        """The probes and their refits."""
        return [run for group in (self.probes, self.refits, self.chance) for run in group.values()]

    @property
    def all_records(self) -> list[Record]:
        """The records of the probes and of their refits."""
        return [record for run in self.runs for record in run.records]


@dataclass(frozen=True, kw_only=True)
class CurveReport:
    """What is reported of one curve begins with whose it is.

    Attributes:
        name: of the curve: the head, and what else tells it from the others.
        model: name of the backbone.
        task: name of the task.
        label: label column.
        split: the split that is reported.
        drawn: what of the split intervals are over.
    """

    name: str
    model: str
    task: str
    label: str
    split: str
    drawn: Drawn


def resample_of(depth: int) -> int:
    """Return the number of the resample on which the probe of an earlier depth is fitted.

    Depths count from 0 and resamples from 1. It is the same whatever other depths there are.
    """
    return depth + 1


def with_refits(records: Sequence[Record]) -> list[Record]:
    """Return the records of the heads of which some were refitted on resamples, refits included."""
    refitted = {key_of(one, _HEAD) for one in records if one.resample is not None}
    return [one for one in records if key_of(one, _HEAD) in refitted]


def depth_curves(records: Sequence[Record], *, refits: bool = False) -> list[DepthCurve]:
    """Return every setting of some records that was probed at several depths.

    Args:
        records: any; those without a depth, and trials, are left out.
        refits: look for the refits as well.

    Raises:
        RecordError: there is no probe of a depth, or of one depth alone, or none of the last
            depth; depths have other seeds; or refits are to be looked for, and labels are no
            classes, predictions were not kept, or refits are missing. The message says what to do.
    """
    truncated = [one for one in records if one.depth is not None and not one.trial]
    probes = [one for one in truncated if one.resample is None]
    if not probes:
        raise RecordError(
            "no record is of a probe at a truncated depth; run `probekit depth MODEL TASK` first."
        )
    fitted = [one for one in truncated if one.resample is not None]
    tasks = grouped(probes, _TASK)
    return [
        _curve(name, f" ({', '.join(map(str, of))})" * (len(tasks) > 1), own,
               fitted if refits else None)
        for of, task in tasks.items()
        for name, own in series(task, given=["depth"]).items()
    ]  # fmt: skip


def _curve(
    name: str,
    of: str,
    probes: Sequence[Record],
    refits: Sequence[Record] | None,
) -> DepthCurve:
    """Return a curve; messages say which task it is ``of`` where there are several."""
    said = name + of
    by_depth = {depth: _run(said, depth, own) for depth, own in _by_depth(probes).items()}
    _check_depths(said, by_depth)
    if refits is None:
        return DepthCurve(name=name, probes=by_depth)
    # what no refit mends is said first
    metric_of_curve(name, probes[0])
    for run in by_depth.values():
        check_kept(run)
    *earlier, last = by_depth
    found = {_key(one): one for one in refits}
    wanted = {
        (at, own): [_key_of_refit(one, resample_of(own)) for one in by_depth[at].records]
        for own in earlier
        for at in (own, last)
    }
    _check_refits(said, by_depth, wanted, found)
    runs = {
        (at, own): _run(f"{said}, resample {resample_of(own)}", at, [found[k] for k in keys])
        for (at, own), keys in wanted.items()
    }
    return DepthCurve(
        name=name,
        probes=by_depth,
        refits={depth: runs[depth, depth] for depth in earlier},
        chance={depth: runs[last, depth] for depth in earlier},
    )


def _by_depth(records: Iterable[Record]) -> dict[int, list[Record]]:
    return {depth: own for (depth,), own in grouped(records, ["depth"]).items()}


def _run(name: str, depth: int, records: Sequence[Record]) -> RecordedRun:
    text = f"{name}, depth {depth}"
    check_seeds(records, text)
    return RecordedRun.of(text, records)


def _check_depths(name: str, by_depth: Mapping[int, RecordedRun]) -> None:
    """Refuse a curve of one depth, one without the last depth, and one of uneven seeds."""
    last, first = max(by_depth), by_depth[min(by_depth)]
    if len(by_depth) < 2:
        raise RecordError(
            f"{name}: there is a probe of depth {last} alone, and depths are compared; {_AGAIN}."
        )
    blocks = by_depth[last].records[0].seen.get("blocks", last)
    if last != blocks:
        raise RecordError(
            f"{name}: the last depth, {blocks}, is missing (the deepest probe is of {last}); "
            f"{_AGAIN}, and with --layers that hold it."
        )
    for depth, run in by_depth.items():
        if run.seeds != first.seeds:
            raise RecordError(
                f"{run.text} has seeds {run.seeds}, {first.text} has {first.seeds}: every depth "
                f"needs the same (depth {depth}); {_AGAIN}, or choose with --where seed=0."
            )


def strength_of(record: Record) -> float | None:
    """Return the strength of L2 that a run was fitted with; None of what takes steps."""
    found = record.diagnosis.get("strength")
    return record.l2 if found is None else float(found)


def _key(record: Record) -> Key:
    """Return what tells a record of a depth and resample from all others."""
    others = [name for name in OPTIONS if name not in _OF_REFIT]
    strength = strength_of(record)
    chose = record.select if strength is None else None  # a strength that is known chooses nothing
    own = (record.depth, record.resample, record.seed, strength, chose)
    return (*own, *key_of(record, others))


def _key_of_refit(probe: Record, resample: int) -> Key:
    depth, _, *rest = _key(probe)
    return (depth, resample, *rest)


def _check_refits(
    name: str,
    by_depth: Mapping[int, RecordedRun],
    wanted: Mapping[tuple[int, int], Sequence[Key]],
    found: Mapping[Key, Record],
) -> None:
    missing = [at for at, keys in wanted.items() for key in keys if key not in found]
    if missing:
        depth, of = missing[0]
        every = sum(map(len, wanted.values()))
        seeds = len(by_depth[depth].seeds)
        raise RecordError(
            f"{name}: {len(missing)} of {every} refits on bootstrap resamples are missing, "
            f"the first of depth {depth} on resample {resample_of(of)}: the level of chance is "
            "measured with them. Run `probekit overthinking MODEL TASK` with the options of these "
            f"runs ({len(by_depth)} depths, {seeds} seed{'s' * (seeds > 1)})."
        )


def metric_of_curve(name: str, record: Record) -> type[ClassMetric]:
    """Return the metric of a curve; see `metric_of_classes`."""
    what = f"{name} ({record.model}, {record.task}, {record.label})"
    return metric_of_classes(recorded_metric(record), what)


def metric_of_classes(metric: type[Metric], what: str) -> type[ClassMetric]:
    """Return a metric by which a prediction is right or wrong.

    Args:
        metric: any.
        what: whose it is, for the message.

    Raises:
        RecordError: it scores values or losses.
    """
    if not issubclass(metric, ClassMetric):
        raise RecordError(
            f"{what}: a prediction is right or wrong where labels are classes, and {metric.name} "
            f"scores {metric.consumes}; choose a task with classes, of a records file with --where "
            "task=TASK."
        )
    return metric
