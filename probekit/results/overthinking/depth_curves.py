"""The probes of one setting at every depth."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from probekit.errors import RecordError
from probekit.metrics import Metric
from probekit.metrics.contract import ClassMetric
from probekit.results.comparison.pairing import recorded_metric
from probekit.results.comparison.resampled_groups import Drawn
from probekit.results.comparison.runs import RecordedRun
from probekit.results.record import Record
from probekit.results.summaries.grouping import check_seeds, grouped, series

_TASK = ("model", "task", "label")

_AGAIN = "run `probekit depth MODEL TASK` with the options of these runs"


@dataclass(frozen=True, kw_only=True)
class DepthCurve:
    """The records of a head at every depth, which differ in depth and seed alone.

    Attributes:
        name: the head, and what else tells it from the other curves of its task.
        probes: runs of each depth, ascending; a record per seed.
    """

    name: str
    probes: Mapping[int, RecordedRun]

    @property
    def depths(self) -> tuple[int, ...]:
        """All depths, ascending; the last is that of the whole model."""
        return tuple(self.probes)

    @property
    def records(self) -> list[Record]:
        """The probes' records."""
        return [record for run in self.probes.values() for record in run.records]


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


def depth_curves(records: Sequence[Record]) -> list[DepthCurve]:
    """Return every setting of some records that was probed at several depths.

    Args:
        records: any; those without a depth, and trials, are left out.

    Raises:
        RecordError: there is no probe of a depth, or of one depth alone, or none of the last
            depth; or depths have other seeds. The message says what to do.
    """
    probes = [one for one in records if one.depth is not None and not one.trial]
    if not probes:
        raise RecordError(
            "no record is of a probe at a truncated depth; run `probekit depth MODEL TASK` first."
        )
    tasks = grouped(probes, _TASK)
    found = []
    for of, task in tasks.items():
        said = f" ({', '.join(map(str, of))})" * (len(tasks) > 1)
        for name, own in series(task, given=["depth"]).items():
            runs = {depth: _run(name + said, depth, at) for depth, at in _by_depth(own).items()}
            _check_depths(name + said, runs)
            found.append(DepthCurve(name=name, probes=runs))
    return found


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
