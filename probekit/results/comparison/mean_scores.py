"""Mean scores: of settings over seeds and sentences, and of layers over the tasks of a suite."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from probekit.errors import ProbekitError, RecordError, clause_of
from probekit.metrics import scale_of
from probekit.results.comparison.compare import BestDepth
from probekit.results.comparison.pairing import Predictions, put_beside
from probekit.results.comparison.resampling import Bootstrap, crossed, pseudo_values
from probekit.results.comparison.runs import RecordedRun
from probekit.results.record import Record
from probekit.results.summaries.grouping import check_seeds, grouped
from probekit.results.summaries.interval import Drawn, Interval, interval, student_p, undecided
from probekit.results.summaries.scored import SCORE_OF, Score, Scored
from probekit.results.summaries.wording import option_text

_SAMPLES = 2_000
"""Of the bootstrap of a score that may jump."""

_SPLIT_OF: Mapping[str, str] = {score: split for split, score in SCORE_OF.items()}


def mean_score(group: Sequence[Record], score: Score, what: str) -> Interval:
    """Return the mean over the seeds of one setting, as in the records.

    Its interval is over sentences, or whole groups of them, and over seeds where these differ, as
    `compare` has it; over seeds alone where the records kept no predictions. Of a score that may
    jump with a single sentence it is the bootstrap's.

    Args:
        group: records that differ in their seed alone, and have the score.
        score: the field that holds the score.
        what: the setting in words, for messages.

    Raises:
        RecordError: a seed occurs twice.
    """
    check_seeds(group, what)
    over_seeds = interval(getattr(record, score) for record in group)
    if score not in _SPLIT_OF or any(record.predictions is None for record in group):
        kept = "no stored predictions; run again with --predictions"
        lacks = "no predictions of the last step" if score not in _SPLIT_OF else kept
        return over_seeds if over_seeds.half else replace(over_seeds, why_not=lacks)
    try:
        (beside,) = put_beside([RecordedRun.of(what, group)], _SPLIT_OF[score])
        scorer, predicted = beside.scorer, [*beside.by_seed.values()]
        if scorer.jumps:
            return _bootstrapped(over_seeds, beside)
        values = pseudo_values(scorer, predicted, beside.groups)
    except ProbekitError as error:
        return replace(over_seeds, why_not=clause_of(error))
    scores = [scorer.score(of_seed)[scorer.name] for of_seed in predicted]
    over_both = crossed(scores, values, beside.groups.drawn)
    why_not = None if over_both.half else "all sentences scored alike"
    return replace(over_both.interval, mean=over_seeds.mean, why_not=why_not)


def _bootstrapped(over_seeds: Interval, beside: Predictions) -> Interval:
    """Return the mean over seeds with the percentiles of its bootstrap over sentences or groups.

    Half the width of these is shown; seeds, where they differ, are added by squares.
    """
    groups, resampler = beside.groups, beside.resampler()
    bootstrap = Bootstrap(samples=_SAMPLES)
    (ends,) = bootstrap.estimates(groups, lambda counts: resampler(counts)[:, None])
    half = math.hypot((ends.high - ends.low) / 2, over_seeds.half or 0.0)
    over = "seeds and sentences" if over_seeds.half else "sentences"
    return replace(over_seeds, half=half or None, over=over, drawn=groups.drawn)


def score_curve(
    records: Sequence[Record], along: str, score: Score, name: str, factor: float = 1.0
) -> dict[Any, Interval]:
    """Return the mean score at every value of an option.

    Args:
        records: of one curve: they differ in the option and their seed alone.
        along: the option, a number.
        score: the field that holds the score.
        name: the curve's name, for messages.
        factor: what scores are multiplied with.

    Raises:
        RecordError: a seed occurs twice at one value.
    """
    groups = {value: group for (value,), group in grouped(records, [along]).items()}
    return {
        value: mean_score(group, score, f"{name}, {option_text(along, value)}").scaled(factor)
        for value, group in groups.items()
    }


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
    within = tuple(sorted({best} | undecided(p)))
    return OverTasks(
        means=means,
        best=BestDepth(best=best, within=within, among=tuple(layers), drawn=drawn),
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
