"""Layers compared over the tasks of a suite: each task is one pair of scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from probekit.errors import RecordError
from probekit.metrics import scale_of
from probekit.results.comparison.compare import BestDepth
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped
from probekit.results.summaries.interval import LEVEL, Drawn, Interval, holm, interval, student_p
from probekit.results.summaries.scored import SCORE_OF, Scored

TASK = ("task", "label")
"""What tells the tasks of a suite apart."""

ByTask = Mapping[tuple[object, ...], Mapping[int, float]]


@dataclass(frozen=True, kw_only=True)
class OverTasks:
    """Scores of one head at every layer, over tasks.

    Attributes:
        means: by layer, with an interval over tasks (Student's t).
        best: the layer with the best mean score on dev, and those whose paired differences to it
            on the split that is shown are not significant (Student's t, Holm over the layers).
        left_out: how many tasks lack a layer.
    """

    means: Mapping[int, Interval]
    best: BestDepth
    left_out: int


def over_tasks(records: Sequence[Record], split: Scored, name: str) -> OverTasks:
    """Average the scores of each layer over tasks, and compare the layers.

    Args:
        records: of one head, each with a depth; they differ in task, depth and seed.
        split: whose scores are averaged.
        name: of the head, for messages.

    Raises:
        RecordError: fewer than two tasks have all layers.
    """
    by_task = grouped(records, TASK)
    layers = sorted({record.depth for record in records if record.depth is not None})
    shown, dev = (_by_layer(by_task, SCORE_OF[which], len(layers)) for which in (split, "dev"))
    if len(shown) < 2:
        raise RecordError(
            f"{name}: {len(shown)} of {len(by_task)} tasks have every layer, and a mean over tasks "
            "needs two. Finish `probekit suite`, or choose layers with --where."
        )
    drawn = Drawn(len(shown), "tasks")
    columns = {n: [scores[n] for scores in shown.values()] for n in layers}
    seeds = min(len({record.seed for record in members}) for members in by_task.values())
    means = {n: replace(interval(columns[n]), n=seeds, over="tasks", drawn=drawn) for n in layers}
    on_dev = {n: interval(scores[n] for scores in dev.values()).mean for n in layers}
    best = scale_of(records[0].metric).best(on_dev)
    p = {
        n: student_p([a - b for a, b in zip(columns[n], columns[best], strict=True)])
        for n in layers
        if n != best
    }
    within = {best, *(n for n, level in holm(p).items() if level >= LEVEL)}
    return OverTasks(
        means=means,
        best=BestDepth(best=best, within=tuple(sorted(within)), among=tuple(layers), drawn=drawn),
        left_out=len(by_task) - len(shown),
    )


def _by_layer(
    by_task: Mapping[tuple[object, ...], Sequence[Record]], score: str, n_layers: int
) -> ByTask:
    """Return the score of each layer, a mean over seeds, of the tasks that have all layers."""
    scores = {
        task: {
            layer: interval(getattr(record, score) for record in seeds).mean
            for (layer,), seeds in grouped(members, ["depth"]).items()
        }
        for task, members in by_task.items()
    }
    return {task: of_task for task, of_task in scores.items() if len(of_task) == n_layers}
