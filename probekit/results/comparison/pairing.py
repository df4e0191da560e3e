"""Two runs side by side: what both predicted for the same sentences, checked to be the same."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from probekit.base.registry import choose
from probekit.errors import OptionError, RecordError
from probekit.metrics import (
    METRICS,
    ROW_SCORES,
    AnyGold,
    Gold,
    LogLoss,
    LossGold,
    Metric,
    SquaredError,
    ValueGold,
)
from probekit.metrics.contract import Counts, Resampler
from probekit.results import Record
from probekit.results.comparison.bootstrap import Differences
from probekit.results.comparison.resampled_groups import Groups, shared_groups
from probekit.results.comparison.runs import RecordedRun
from probekit.results.predictions import Content, Predicted, read_predicted

_AGAIN = "run the same `probekit train`, `sweep` or `depth` command again with --predictions."
_TOLERANCE = 1e-6  # relative; of a score against the one in its record


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairing:
    """What two runs predicted, seed by seed.

    Attributes:
        scorer: the metric, prepared with the gold labels that both share.
        groups: of the split's sentences: what is resampled.
        a: predictions of the first run, one array per seed, as the scorer wants them.
        b: predictions of the second run, for the same seeds.
    """

    scorer: Metric
    groups: Groups
    a: list[np.ndarray]
    b: list[np.ndarray]

    def scores(self) -> tuple[list[float], list[float]]:
        """Return the score of every seed of both runs."""
        one, two = (
            [self.scorer.score(found)[self.scorer.name] for found in side]
            for side in (self.a, self.b)
        )
        return one, two

    def resampler(self) -> Callable[[Counts], Differences]:
        """Return what scores samples of sentences: mean over seeds of the first less the second."""
        one, two = self.resampler_of(self.a), self.resampler_of(self.b)
        return lambda counts: one(counts) - two(counts)

    def resampler_of(self, side: Sequence[np.ndarray]) -> Resampler:
        """Return what scores samples of sentences: the mean over the seeds of one side."""
        resamplers = [self.scorer.resampler(found) for found in side]
        return lambda counts: np.mean([score(counts) for score in resamplers], axis=0)


def pair(a: RecordedRun, b: RecordedRun, split: str, metric: str | None = None) -> Pairing:
    """Read the side files of two runs and put them side by side.

    Args:
        a: the first run.
        b: the second run.
        split: what both were scored on.
        metric: how they are scored, a name of ``METRICS``; of a regression ``loss`` is the squared
            error. None is the metric of their records.

    Raises:
        OptionError: both are the same run.
        UnknownNameError: there is no such metric.
        MissingFileError: a side file does not exist.
        RecordError: the runs have other seeds, metrics, sentences or labels, a record has no side
            file that gives its score, or a side file does not hold what the metric scores.
    """
    _check_seeds(a, b)
    return put_beside(a, b, split, metric)


def put_beside(a: RecordedRun, b: RecordedRun, split: str, metric: str | None = None) -> Pairing:
    """Do what `pair` does, of any seeds of both.

    Raises:
        OptionError: see `pair`.
        UnknownNameError: see `pair`.
        MissingFileError: see `pair`.
        RecordError: see `pair`.
    """
    _check_runs(a, b, split)
    own = recorded_metric(a.records[0])
    if metric is not None:
        choose("metric", metric, METRICS)
    same = metric is None or metric == own.name
    sides = read_alike([a, b], split, texts=False, probabilities=not same)
    if metric is None or same:
        return _paired(own, [a, b], sides)
    kind = _metric_for(metric, sides[0][0].content)
    for run, side in zip((a, b), sides, strict=True):
        for record, predicted in zip(run.records, side, strict=True):
            _check_scorable(kind, metric, predicted, run, record)
    return _paired(kind, [a, b], sides)


def recorded_metric(record: Record) -> type[Metric]:
    """Return the metric of a record.

    Raises:
        UnknownNameError: there is none of its name here.
    """
    METRICS.recall(record.metric, record.plugins.get("metric"))
    return choose("metric", record.metric, METRICS)


def _paired(
    metric: type[Metric], runs: Sequence[RecordedRun], sides: Sequence[Sequence[Predicted]]
) -> Pairing:
    """Return the pairing of two sides by a metric, prepared with what is true of both."""
    one, two = ([_consumed(metric, found) for found in side] for side in sides)
    reference = sides[0][0]
    scorer = metric(_gold(reference, metric))
    return Pairing(scorer=scorer, groups=groups_of(runs, sides), a=one, b=two)


def groups_of(runs: Sequence[RecordedRun], sides: Sequence[Sequence[Predicted]]) -> Groups:
    """Return the groups of the sentences that several runs predicted, which any of them knows.

    Args:
        runs: the runs.
        sides: by run, what each seed predicted for the same sentences.

    Raises:
        RecordError: two of them know other groups.
    """
    return shared_groups(
        (_origin(run, record), Groups.of(one))
        for run, side in zip(runs, sides, strict=True)
        for record, one in zip(run.records, side, strict=True)
    )


def _metric_for(metric: str, content: Content) -> type[Metric]:
    """Return the metric of a name; the ``loss`` of values is their squared error."""
    squares = metric == LogLoss.name and content == "values"
    return SquaredError if squares else METRICS[metric]


def _consumed(metric: type[Metric], found: Predicted) -> np.ndarray:
    """Return what a metric scores of predictions."""
    if metric.consumes != "probabilities":
        return found.predicted
    if found.row_scores is not None:
        return found.row_scores
    rows = np.zeros(len(found.predicted), ROW_SCORES)  # losses of an earlier version
    rows["loss"] = found.predicted
    return rows


def _check_scorable(
    kind: type[Metric], metric: str, found: Predicted, run: RecordedRun, record: Record
) -> None:
    """Refuse a metric of what a side file does not hold."""
    held = {found.content, *(["probabilities"] if found.row_scores is not None else [])}
    if kind.consumes in held or (kind is LogLoss and found.content == "losses"):
        return
    if kind.consumes == "probabilities" and found.content != "values":
        raise RecordError(
            f"{_origin(run, record)}: {metric} is a score of probabilities, and its predictions "
            "hold none, as an earlier version of probekit wrote them; delete "
            f"{record.predictions} and train again with --predictions."
        )
    kinds = {name: _metric_for(name, found.content) for name, _ in METRICS.items()}
    fitting = [name for name, one in kinds.items() if one.consumes in held]
    raise RecordError(
        f"{_origin(run, record)}: {metric} scores {kind.consumes}, and its predictions are "
        f"{found.content}; choose from: {', '.join(fitting)}."
    )


def _check_seeds(a: RecordedRun, b: RecordedRun) -> None:
    if a.seeds != b.seeds and len(a.seeds) + len(b.seeds) > 2:
        raise RecordError(
            f"{a.text} has seeds {_listed(a.seeds)}, {b.text} has {_listed(b.seeds)}: seeds are "
            "compared in pairs. Train the missing ones, or choose with --where seed=0."
        )


def _check_runs(a: RecordedRun, b: RecordedRun, split: str) -> None:
    if {record.key for record in a.records} & {record.key for record in b.records}:
        raise OptionError(f"{a.text} and {b.text} are the same run; choose two.")
    for name in ("task", "label", "metric"):
        one, two = (getattr(run.records[0], name) for run in (a, b))
        if one != two:
            raise RecordError(
                f"{a.text} has {name} {one}, {b.text} has {two}; runs are compared on the same "
                "sentences and labels."
            )
    one, two = (run.records[0].texts for run in (a, b))
    if split in one and split in two and one[split] != two[split]:
        raise RecordError(
            f"the {split} texts of {a.text} and {b.text} are not the same, though their task is "
            f"called {a.records[0].task} in both; runs are compared on the same sentences."
        )


def read_alike(
    runs: Sequence[RecordedRun], split: str, *, texts: bool = True, probabilities: bool = True
) -> list[list[Predicted]]:
    """Read what several runs predicted of the same rows.

    Args:
        runs: each with a record per seed; all of one metric.
        split: what they were scored on.
        texts: read the texts, of the first record alone, as they are those of all.
        probabilities: read the probabilities of classes, and what they score.

    Returns:
        By run, what each seed predicted: class numbers of all are of the same names.

    Raises:
        MissingFileError: a side file does not exist.
        RecordError: runs predicted other sentences, rows or labels, or a record has no side file
            that gives its score.
    """
    first = runs[0].records[0]
    metric = recorded_metric(first)
    read = [
        [
            _read(
                *(run, record, split, metric),
                texts=texts and record is first,
                probabilities=probabilities,
            )
            for record in run.records
        ]
        for run in runs
    ]
    names = tuple(dict.fromkeys(name for side in read for one in side for name in one.names))
    sides = [[_renamed(one, names) for one in side] for side in read]
    reference = sides[0][0]
    scorer = metric(_gold(reference, metric))
    for run, side in zip(runs, sides, strict=True):
        for record, one in zip(run.records, side, strict=True):
            _check_same(reference, one, _origin(runs[0], first), _origin(run, record))
    for run, side in zip(runs, sides, strict=True):
        scores = [scorer.score(_consumed(metric, one))[scorer.name] for one in side]
        _check_scores(run, scores, split)
    return sides


def check_kept(run: RecordedRun) -> None:
    """Refuse a run that kept no predictions.

    Raises:
        RecordError: the record of a seed has none.
    """
    for record in run.records:
        if record.predictions is None:
            raise RecordError(f"{_origin(run, record)}: its predictions were not kept; {_AGAIN}")


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _origin(run: RecordedRun, record: Record) -> str:
    return f"{run.text}, seed {record.seed}"


def _read(
    run: RecordedRun,
    record: Record,
    split: str,
    metric: type[Metric],
    *,
    texts: bool,
    probabilities: bool,
) -> Predicted:
    """Read what a record predicted for a split."""
    check_kept(run)
    path = Path(record.predictions or "")
    written = record.predictions_digest
    about, splits = read_predicted(path, texts=texts, probabilities=probabilities, written=written)
    if about is not None and about.key != record.key:
        raise RecordError(
            f"{path}: holds the predictions of run {about.key[:8]}, not of "
            f"{record.key[:8]}; {_AGAIN}"
        )
    if split not in splits:
        raise RecordError(
            f"{path}: no predictions for {split}, only for {', '.join(splits)}; choose another "
            "--split."
        )
    if splits[split].content != metric.consumes:
        raise RecordError(
            f"{path}: {metric.name} scores {metric.consumes}; found {splits[split].content}."
        )
    return splits[split]


def _check_same(one: Predicted, two: Predicted, origin: str, other: str) -> None:
    """Refuse predictions for other sentences, rows or gold labels."""
    if len(one.ids) != len(two.ids):
        raise RecordError(
            f"{origin} was scored on {len(one.ids)} sentences, {other} on {len(two.ids)}; runs are "
            "compared on the same ones."
        )
    for e, (left, right) in enumerate(zip(one.ids, two.ids, strict=True)):
        if left != right:
            raise RecordError(
                f"sentence {e + 1} of {origin} is {left!r}, of {other} {right!r}; runs are "
                "compared on the same ones (another --hold-out holds out others)."
            )
    uneven = np.flatnonzero(one.offsets != two.offsets)
    if len(uneven):
        raise RecordError(
            f"sentence {one.ids[uneven[0] - 1]!r} has another number of rows in {origin} than in "
            f"{other}; runs are compared on the same ones."
        )
    if one.gold is None or two.gold is None:
        return
    differing = np.flatnonzero(one.gold != two.gold)
    if len(differing):
        row = differing[0]
        sentence = one.ids[np.searchsorted(one.offsets, row, side="right") - 1]
        truth, others = (
            one.names[gold[row]] if one.names else gold[row] for gold in (one.gold, two.gold)
        )
        raise RecordError(
            f"{len(differing)} gold labels differ, first in sentence {sentence!r}: {truth} in "
            f"{origin}, {others} in {other}; train both on the same labels."
        )


def _renamed(found: Predicted, names: tuple[str, ...]) -> Predicted:
    """Return predictions of classes as indices into ``names``; all else stays as it is."""
    if found.content != "classes":
        return found
    place = np.array([names.index(name) for name in found.names], dtype=np.int64)
    gold = None if found.gold is None else place[found.gold]
    return replace(
        found, predicted=place[found.predicted], gold=gold, names=names, kept=_kept(found, place)
    )


def _kept(found: Predicted, place: np.ndarray) -> np.ndarray | None:
    """Return the new numbers of the classes whose probabilities were kept; None in their order."""
    if found.probabilities is None:
        return None
    if found.kept is not None:
        return place[found.kept]
    # B A, of A B C: the columns of all rows are 1 0; A B, of A B C, are in order
    columns = place[: found.probabilities.shape[1]]
    in_order = np.array_equal(columns, np.arange(len(columns)))
    return None if in_order else np.broadcast_to(columns, found.probabilities.shape)


def _gold(found: Predicted, metric: type[Metric]) -> AnyGold:
    if found.gold is None or metric.consumes in ("losses", "probabilities"):
        return LossGold(len(found.predicted), found.offsets)
    if found.content == "values":
        return ValueGold(found.gold, found.offsets)
    return Gold(found.gold, found.offsets, found.names)


def _check_scores(run: RecordedRun, scores: Sequence[float], split: str) -> None:
    """Refuse side files that do not give the scores of their records."""
    for record, score in zip(run.records, scores, strict=True):
        other = record.scores.get(f"{split}/{record.metric}")
        expected = {"dev": record.eval_score, "test": record.test_score}.get(split, other)
        if expected is None or not math.isclose(
            score, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE
        ):
            raise RecordError(
                f"{_origin(run, record)}: its predictions score {score:.6g} on {split}, its record "
                f"says {'nothing' if expected is None else format(expected, '.6g')}; delete "
                f"{record.predictions} and train again with --predictions."
            )
