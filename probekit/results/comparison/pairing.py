"""Runs side by side: what all predicted for the same sentences, checked to be the same."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from probekit import metrics
from probekit.base.registry import choose
from probekit.errors import OptionError, RecordError
from probekit.metrics.contract import Resampler
from probekit.results.comparison.resampling import Groups, shared_groups
from probekit.results.comparison.runs import RecordedRun
from probekit.results.predictions import Content, Predicted, read_predicted
from probekit.results.record import Record
from probekit.results.summaries.scored import Rescored, score_on

_AGAIN = "run the same `probekit train`, `sweep` or `depth` command again with --predictions."
_TOLERANCE = 1e-6  # relative; of a score against the one in its record


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the seeds of one run predicted for the sentences of a split, beside other runs.

    Attributes:
        scorer: the metric, prepared with the gold labels that all runs share.
        by_seed: one array per seed, as the scorer wants it.
        groups: of the split's sentences: what is resampled.
        name: whose they are, for messages.
    """

    scorer: metrics.Metric
    by_seed: Mapping[int, np.ndarray]
    groups: Groups
    name: str = ""

    def resampler(self) -> Resampler:
        """Return what scores samples of sentences: the mean over the seeds."""
        resamplers = [self.scorer.resampler(predicted) for predicted in self.by_seed.values()]
        return lambda counts: np.mean([score(counts) for score in resamplers], axis=0)


def put_beside(
    runs: Sequence[RecordedRun], split: str, metric: str | None = None
) -> list[Predictions]:
    """Read the side files of some runs and put them side by side.

    Args:
        runs: two or more.
        split: what all were scored on.
        metric: how they are scored, a name of ``METRICS``; of a regression ``loss`` is the squared
            error. None is the metric of their records.

    Raises:
        OptionError: two runs are the same one, or there are too few sentences to resample.
        UnknownNameError: there is no such metric.
        MissingFileError: a side file does not exist.
        RecordError: the runs have other metrics, sentences or labels, a record has no side file
            that gives its score, or a side file does not hold what the metric scores.
    """
    first = runs[0].records[0]
    if isinstance(first, Rescored):
        metric, runs = metric or first.metric, list(map(_as_trained, runs))
    for run in runs[1:]:
        _check_runs(runs[0], run, split)
    kind = recorded_metric(runs[0].records[0])
    if metric is not None:
        choose("metric", metric, metrics.METRICS)
    same = metric is None or metric == kind.name
    sides = read_alike(runs, split, texts=False, probabilities=not same)
    if metric is not None and not same:
        kind = _metric_for(metric, sides[0][0].content)
        for run, record, predicted in _each(runs, sides):
            _check_scorable(kind, metric, predicted, run, record)
    scorer, groups = kind(_gold(sides[0][0], kind)), groups_of(runs, sides)
    if groups.n_sentences < 2:
        raise OptionError("a bootstrap over sentences needs at least two sentences.")
    return [
        Predictions(
            scorer,
            dict(zip(run.seeds, (_consumed(kind, of_seed) for of_seed in side), strict=True)),
            groups,
            run.text,
        )
        for run, side in zip(runs, sides, strict=True)
    ]


def _as_trained(run: RecordedRun) -> RecordedRun:
    records = (getattr(record, "trained", record) for record in run.records)
    return replace(run, records=tuple(records))


def recorded_metric(record: Record) -> type[metrics.Metric]:
    """Return the metric of a record.

    Raises:
        UnknownNameError: there is none of its name here.
    """
    metrics.METRICS.recall(record.metric, record.plugins.get("metric"))
    return choose("metric", record.metric, metrics.METRICS)


def groups_of(runs: Sequence[RecordedRun], sides: Sequence[Sequence[Predicted]]) -> Groups:
    """Return the groups of the sentences that several runs predicted, which any of them knows.

    Args:
        runs: the runs.
        sides: by run, what each seed predicted for the same sentences.

    Raises:
        RecordError: two of them know other groups.
    """
    return shared_groups(
        (_origin(run, record), Groups.of(predicted))
        for run, record, predicted in _each(runs, sides)
    )


def _each(
    runs: Sequence[RecordedRun], sides: Sequence[Sequence[Predicted]]
) -> Iterator[tuple[RecordedRun, Record, Predicted]]:
    """Yield what each record of each run predicted."""
    for run, side in zip(runs, sides, strict=True):
        for record, predicted in zip(run.records, side, strict=True):
            yield run, record, predicted


def _metric_for(metric: str, content: Content) -> type[metrics.Metric]:
    """Return the metric of a name; the ``loss`` of values is their squared error."""
    squares = metric == metrics.LogLoss.name and content == "values"
    return metrics.SquaredError if squares else metrics.METRICS[metric]


def _consumed(metric: type[metrics.Metric], predicted: Predicted) -> np.ndarray:
    """Return what a metric scores of predictions."""
    if predicted.content == "sets" and metric.of_sets:
        decided = np.where(predicted.predicted, 1.0, -1.0)
        return decided if predicted.odds is None else predicted.odds
    if metric.consumes == "scores" and predicted.odds is not None:
        return predicted.odds
    if metric.consumes != "probabilities":
        return predicted.predicted
    if predicted.row_scores is not None:
        return predicted.row_scores
    rows = np.zeros(len(predicted.predicted), metrics.ROW_SCORES)  # losses of an earlier version
    rows["loss"] = predicted.predicted
    return rows


def _check_scorable(
    kind: type[metrics.Metric], metric: str, predicted: Predicted, run: RecordedRun, record: Record
) -> None:
    """Refuse a metric of what a side file does not hold."""
    if _scorable(kind, predicted) or (kind is metrics.LogLoss and predicted.content == "losses"):
        return
    kinds = {name: _metric_for(name, predicted.content) for name, _ in metrics.METRICS.items()}
    fitting = [name for name, scorer in kinds.items() if _scorable(scorer, predicted)]
    per_class = "probabilities of classes (kept of up to 200 classes)"
    what = per_class if kind.consumes == "scores" else kind.consumes
    raise RecordError(
        f"{_origin(run, record)}: {metric} scores {what}, and its predictions are "
        f"{predicted.content}; choose from: {', '.join(fitting)}."
    )


def _scorable(metric: type[metrics.Metric], predicted: Predicted) -> bool:
    """Say whether predictions hold what a metric scores."""
    if metric.consumes == "probabilities":
        return predicted.row_scores is not None
    if metric.consumes == "scores":
        return predicted.odds is not None
    return metric.of_sets if predicted.content == "sets" else metric.consumes == predicted.content


def _check_runs(a: RecordedRun, b: RecordedRun, split: str) -> None:
    if {record.key for record in a.records} & {record.key for record in b.records}:
        raise OptionError(f"{a.text} and {b.text} are the same run; choose two.")
    for name in ("task", "label", "metric"):
        value_a, value_b = (getattr(run.records[0], name) for run in (a, b))
        if value_a != value_b:
            raise RecordError(
                f"{a.text} has {name} {value_a}, {b.text} has {value_b}; runs are compared on the "
                "same sentences and labels."
            )
    texts_a, texts_b = (run.records[0].texts for run in (a, b))
    if split in texts_a and split in texts_b and texts_a[split] != texts_b[split]:
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
            _read(run, record, split, metric, texts and record is first, probabilities)
            for record in run.records
        ]
        for run in runs
    ]
    names = tuple(dict.fromkeys(name for side in read for seed in side for name in seed.names))
    sides = [[_renamed(predicted, names) for predicted in side] for side in read]
    reference = sides[0][0]
    scorer = metric(_gold(reference, metric))
    for run, record, predicted in _each(runs, sides):
        _check_same(reference, predicted, _origin(runs[0], first), _origin(run, record))
    for run, record, predicted in _each(runs, sides):
        score = scorer.score(_consumed(metric, predicted))[scorer.name]
        expected = score_on(record, split)
        if expected is None or not math.isclose(
            score, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE
        ):
            raise RecordError(
                f"{_origin(run, record)}: its predictions score {score:.6g} on {split}, its record "
                f"says {'nothing' if expected is None else format(expected, '.6g')}; delete "
                f"{record.predictions} and train again with --predictions."
            )
    return sides


def _origin(run: RecordedRun, record: Record) -> str:
    return f"{run.text}, seed {record.seed}"


def _read(
    run: RecordedRun,
    record: Record,
    split: str,
    metric: type[metrics.Metric],
    texts: bool,
    probabilities: bool,
) -> Predicted:
    """Read what a record predicted for a split."""
    if record.predictions is None:
        raise RecordError(f"{_origin(run, record)}: its predictions were not kept; {_AGAIN}")
    path, written = Path(record.predictions), record.predictions_digest
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
    if not _scorable(metric, splits[split]):
        raise RecordError(
            f"{path}: {metric.name} scores {metric.consumes}; found {splits[split].content}."
        )
    return splits[split]


def _check_same(first: Predicted, second: Predicted, origin: str, other: str) -> None:
    """Refuse predictions for other sentences, rows or gold labels."""
    if len(first.ids) != len(second.ids):
        raise RecordError(
            f"{origin} was scored on {len(first.ids)} sentences, {other} on {len(second.ids)}; "
            "runs are compared on the same ones."
        )
    for e, (left, right) in enumerate(zip(first.ids, second.ids, strict=True)):
        if left != right:
            raise RecordError(
                f"sentence {e + 1} is {left!r} in {origin}, but {right!r} in {other}; runs are "
                "compared on the same sentences (another --hold-out holds out other ones)."
            )
    uneven = np.flatnonzero(first.offsets != second.offsets)
    if len(uneven):
        raise RecordError(
            f"sentence {first.ids[uneven[0] - 1]!r} has different numbers of rows in {origin} and "
            f"{other}; runs are compared on the same sentences."
        )
    if first.gold is None or second.gold is None:
        return
    differing = np.unique(np.nonzero(first.gold != second.gold)[0])
    if len(differing):
        row = differing[0]
        sentence = first.ids[np.searchsorted(first.offsets, row, side="right") - 1]
        truth, others = (first.label_text(gold[row]) for gold in (first.gold, second.gold))
        raise RecordError(
            f"{len(differing)} gold labels differ, first in sentence {sentence!r}: {truth} in "
            f"{origin}, {others} in {other}; train both on the same labels."
        )


def _renamed(predicted: Predicted, names: tuple[str, ...]) -> Predicted:
    """Return predictions of classes as indices into ``names``; all else stays as it is."""
    if predicted.content not in ("classes", "sets"):
        return predicted
    index_of = np.array([names.index(name) for name in predicted.names], dtype=np.int64)
    kept = None if predicted.kept is None else index_of[predicted.kept]
    if kept is None and predicted.probabilities is not None:
        # B A, of A B C: the columns of all rows are 1 0; A B, of A B C, are in order
        columns = index_of[: predicted.probabilities.shape[1]]
        if not np.array_equal(columns, np.arange(len(columns))):
            kept = np.broadcast_to(columns, predicted.probabilities.shape)
    odds = predicted.odds
    if odds is not None:
        widened = np.full((len(odds), len(names)), -1.0, np.float32)
        widened[:, index_of[: odds.shape[1]]] = odds
        odds = widened

    def named(values: np.ndarray) -> np.ndarray:
        if predicted.content == "classes":
            return np.asarray(index_of[values])
        columns = np.zeros((len(values), len(names)), bool)
        columns[:, index_of] = values
        return columns

    gold = None if predicted.gold is None else named(predicted.gold)
    said = named(predicted.predicted)
    return replace(predicted, predicted=said, gold=gold, names=names, kept=kept, odds=odds)


def _gold(predicted: Predicted, metric: type[metrics.Metric]) -> metrics.AnyGold:
    if predicted.gold is None or metric.consumes in ("losses", "probabilities"):
        return metrics.LossGold(len(predicted.predicted), predicted.offsets)
    if predicted.content == "values":
        return metrics.ValueGold(predicted.gold, predicted.offsets)
    if predicted.content == "sets":
        return metrics.LabelSets(predicted.gold, predicted.offsets, predicted.names)
    return metrics.Gold(predicted.gold, predicted.offsets, predicted.names)
