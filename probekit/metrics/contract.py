"""What every metric promises, and what it is given: predictions, and gold of every kind."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64, Shaped

from probekit.errors import DataError, OptionError

Ids = Int64[np.ndarray, " words"]
Values = Float64[np.ndarray, " rows"]
Offsets = Int64[np.ndarray, " bounds"]
LabelScores = Float[np.ndarray, "rows labels"]


@dataclass(frozen=True)
class Gold:
    """The gold labels of a split, as ids.

    Attributes:
        ids: one id per word (per text for labels of whole texts), an index into ``names``;
            examples one after another.
        offsets: example e owns words ``offsets[e]:offsets[e + 1]``; shape (examples + 1,).
        names: label names. The classes that a head can predict come first, in its order; labels
            that only the gold side has (a dev label unseen in train) follow. No prediction can
            match those, so they count as errors; they are never skipped.
    """

    ids: Ids
    offsets: Offsets
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check that ids and offsets fit together.

        Raises:
            DataError: no words, ids outside ``names``, offsets that do not cover the words, or a
                name that is empty or occurs twice.
        """
        _check_bounds("word", len(self.ids), self.offsets)
        if not all(self.names) or len(set(self.names)) != len(self.names):
            raise DataError(f"label names must be distinct and not empty; found {self.names}.")
        if self.ids.min() < 0 or self.ids.max() >= len(self.names):
            raise DataError(
                f"gold label ids must lie in 0..{len(self.names) - 1}; found {self.ids.min()} to "
                f"{self.ids.max()}. Give labels unseen in train a name and an id of their own "
                "(encode_gold does)."
            )

    def check(self, predicted: Ids) -> None:
        """Raise OptionError unless there is one prediction per word, each an index into names."""
        check_count(predicted, len(self.ids), "word")
        if predicted.min() < 0 or predicted.max() >= len(self.names):
            raise OptionError(
                f"predictions must be label ids in 0..{len(self.names) - 1}; found "
                f"{predicted.min()} to {predicted.max()}."
            )


@dataclass(frozen=True)
class LabelSets:
    """The gold labels of rows that have several, or none.

    Attributes:
        matrix: whether a row has a label.
        offsets: example e owns rows ``offsets[e]:offsets[e + 1]``; shape (examples + 1,).
        names: of the labels; those that no head predicts, since train lacks them, come last.
    """

    matrix: Bool[np.ndarray, "rows labels"]
    offsets: Offsets
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check that there is a row, and that offsets fit.

        Raises:
            DataError: there is none, or offsets do not cover the rows.
        """
        _check_bounds("row", len(self.matrix), self.offsets)


@dataclass(frozen=True)
class ValueGold:
    """The gold values of a split, for regressions.

    Attributes:
        values: one finite number per row.
        offsets: example e owns rows ``offsets[e]:offsets[e + 1]``; shape (examples + 1,).
    """

    values: Values
    offsets: Offsets

    def __post_init__(self) -> None:
        """Check values and offsets.

        Raises:
            DataError: no values, one that is not finite, or offsets that do not cover them.
        """
        _check_bounds("value", len(self.values), self.offsets)
        if not np.isfinite(self.values).all():
            row = int(np.flatnonzero(~np.isfinite(self.values))[0])
            raise DataError(f"gold values must be finite; row {row} is {self.values[row]}.")


@dataclass(frozen=True)
class LossGold:
    """How many losses a split has; they already hold the comparison with its targets.

    Attributes:
        n_rows: number of rows, at least one.
        offsets: example e owns rows ``offsets[e]:offsets[e + 1]``; None where every row counts as
            an example of its own.
    """

    n_rows: int
    offsets: Offsets | None = None

    def __post_init__(self) -> None:
        """Check that there is a row, and that offsets fit.

        Raises:
            DataError: there is none, or offsets do not cover the rows.
        """
        if self.n_rows < 1:
            raise DataError("there is no row to score: the split is empty.")
        if self.offsets is not None:
            _check_bounds("row", self.n_rows, self.offsets)


AnyGold = Gold | LabelSets | ValueGold | LossGold


def encode_gold(labels: Sequence[Sequence[str]], classes: Sequence[str]) -> Gold:
    """Turn label names into `Gold`.

    Args:
        labels: one list of label names per example.
        classes: the head's classes, ids 0..C-1; other labels get the ids that follow, by name.
    """
    extra = sorted({label for example in labels for label in example}.difference(classes))
    names = (*classes, *extra)
    index = {name: i for i, name in enumerate(names)}
    ids = np.array([index[label] for example in labels for label in example], dtype=np.int64)
    offsets = np.cumsum([0, *map(len, labels)], dtype=np.int64)
    return Gold(ids, offsets, names)


def _check_bounds(noun: str, count: int, bounds: Offsets) -> None:
    if count == 0:
        raise DataError(f"there is no {noun} to score: the split is empty.")
    if bounds[0] != 0 or bounds[-1] != count or (np.diff(bounds) < 0).any():
        raise DataError(
            f"offsets must rise from 0 to the number of {noun}s, {count}; found "
            f"{bounds[0]} to {bounds[-1]}."
        )


def padded(scores: LabelScores, n_rows: int, n_labels: int) -> LabelScores:
    """Return the scores of all labels: of those that no head predicts they are -1.

    Raises:
        OptionError: another number of rows, or of labels, than the gold side has.
    """
    check_count(scores, n_rows, "row")
    if scores.ndim != 2 or scores.shape[1] > n_labels:
        raise OptionError(
            f"expected a score for each of at most {n_labels} labels per row; found an array of "
            f"shape {scores.shape}."
        )
    lacking = ((0, 0), (0, n_labels - scores.shape[1]))
    return np.pad(np.nan_to_num(scores.astype(np.float64)), lacking, constant_values=-1.0)


def check_count(predicted: Ids | Values | LabelScores, expected: int, noun: str) -> None:
    """Raise OptionError unless there are as many predictions as expected."""
    if len(predicted) != expected:
        raise OptionError(
            f"expected {expected} predictions, one per {noun}; found {len(predicted)}."
        )


class Confusion(NamedTuple):
    """How often each gold class was predicted as which.

    Attributes:
        rows: classes that the gold side has.
        columns: classes that were predicted.
        counts: rows of the split by gold class and predicted class, shape (rows, columns).
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: Int64[np.ndarray, "rows columns"]


def confusion(gold: Gold, predicted: Ids, groups: Sequence[str] | None = None) -> Confusion:
    """Count gold classes against predicted ones.

    Args:
        gold: the gold labels.
        predicted: one id per row, an index into ``gold.names``.
        groups: name under which each of ``gold.names`` is counted, such as the entity type of a
            tag; ``None`` counts every label for itself.

    Returns:
        Rows and columns in the order in which ``groups`` first names them; classes that do not
        occur are left out.

    Raises:
        OptionError: another number of predictions than rows, or an id outside ``gold.names``.
    """
    gold.check(predicted)
    names = gold.names if groups is None else tuple(groups)
    kinds = tuple(dict.fromkeys(names))
    group = np.array([kinds.index(name) for name in names])
    counts = count_pairs(group[gold.ids], group[predicted], len(kinds))
    rows, columns = np.flatnonzero(counts.sum(1)), np.flatnonzero(counts.sum(0))
    return Confusion(
        tuple(kinds[i] for i in rows),
        tuple(kinds[i] for i in columns),
        counts[np.ix_(rows, columns)],
    )


def count_pairs(gold: Ids, predicted: Ids, n: int) -> Int64[np.ndarray, "n n"]:
    """Return how often each pair of ids below ``n`` occurs, gold along axis 0."""
    return np.bincount(gold * n + predicted, minlength=n * n).reshape(n, n).astype(np.int64)


T = TypeVar("T")
Consumes = Literal["classes", "scores", "values", "losses", "probabilities"]

Counts = Float64[np.ndarray, "samples examples"]
"""How often each example of a split occurs in each of some samples."""

Parts = Float64[np.ndarray, "examples parts"]
Sums = Float64[np.ndarray, "samples parts"]
Scores = Float64[np.ndarray, " samples"]
Resampler = Callable[[Counts], Scores]

_AT_ONCE = 1 << 21  # numbers of a block of samples

_GOLD: dict[Consumes, type] = {
    "classes": Gold,
    "scores": Gold,
    "values": ValueGold,
    "losses": LossGold,
    "probabilities": LossGold,
}


@dataclass(frozen=True, slots=True)
class Scale:
    """How scores are shown.

    Attributes:
        percent: whether they are printed times 100.
        greater_is_better: whether the best is the largest.
        lowest: the lowest that a score can be, before it is printed.
        decimals: digits after the point that tables print.
    """

    percent: bool = True
    greater_is_better: bool = True
    lowest: float = 0.0
    decimals: int = 2

    @property
    def factor(self) -> float:
        """What a score is multiplied with before it is printed."""
        return 100.0 if self.percent else 1.0

    @property
    def sign(self) -> int:
        """What a score is multiplied with so that the best is the largest."""
        return 1 if self.greater_is_better else -1

    def text(self, score: float) -> str:
        """Return a score as a message says it."""
        return f"{score * self.factor:.1f}"

    def clip(self, low: float, high: float) -> tuple[float, float]:
        """Cut an interval of printed scores to what such scores can be.

        Few seeds make an interval wide: a percentage ends at 100, and all scores at ``lowest``,
        unless the middle of the interval is below (a correlation of a newer version).
        """
        if not self.percent:
            return max(low, self.lowest), high
        floor = self.lowest * self.factor if low + high >= 0 else -100.0
        return max(low, floor), min(high, 100.0)

    def best(self, scores: Mapping[T, float]) -> T:
        """Return the key of the best score; of equal ones the first."""
        return max(scores, key=lambda key: self.sign * scores[key])

    def is_wide(self, low: float, high: float) -> bool:
        """Say whether scores from low to high need a logarithmic axis: raw, over a factor of 20."""
        return not self.percent and low > 0 and math.log(high / low) > math.log(20)


class Metric(ABC):
    """A metric, prepared for one split; `score` may be called many times.

    Attributes:
        name: key in ``METRICS``, and the key of the main score.
        text: what axes and captions call it.
        summary: one line for people.
        scale: how its scores are shown, and which way is better.
        consumes: what is scored: class ids against `Gold`, a score per class against the same,
            values against `ValueGold`, the losses of rows (`LossGold`), or what their probabilities
            score (`ROW_SCORES`, `LossGold`).
        of_sets: whether a score per label against `LabelSets` is scored too: a row is said to have
            the labels whose scores are above 0.
        jumps: whether a single example may move the score far, as at an operating point; leaving
            each out in turn then tells nothing of its spread, and there is no interval.
        gold: the gold side of the split.
    """

    name: ClassVar[str]
    text: ClassVar[str]
    summary: ClassVar[str]
    scale: ClassVar[Scale] = Scale()
    consumes: ClassVar[Consumes] = "classes"
    of_sets: ClassVar[bool] = False
    jumps: ClassVar[bool] = False

    def __init__(self, gold: AnyGold) -> None:
        """Keep the gold side; subclasses then find what they need of it, once.

        Raises:
            OptionError: the gold side is not of the kind that the metric consumes.
        """
        kind = _GOLD[self.consumes]
        if not isinstance(gold, kind) and not (self.of_sets and isinstance(gold, LabelSets)):
            raise OptionError(
                f"{self.name} scores {self.consumes} ({kind.__name__}); found "
                f"{type(gold).__name__}. Choose a metric for this kind of label."
            )
        self.gold = gold

    @abstractmethod
    def score(self, predicted: np.ndarray) -> dict[str, float]:
        """Return finite scores; the main score comes first, under the metric's name.

        Args:
            predicted: one class id, value, loss or item of `ROW_SCORES` per row, as ``consumes``
                says.

        Raises:
            OptionError: another number of predictions than rows, or a class id outside
                ``Gold.names``.
        """

    @abstractmethod
    def resampler(self, predicted: np.ndarray) -> Resampler:
        """Return a function to the main scores of many resamples of the examples.

        It takes how often each example occurs in each sample, (samples, examples). Where sums
        over examples are enough, `AdditiveMetric` gives it.

        Args:
            predicted: as for `score`.
        """

    def left_out(self, predicted: np.ndarray) -> Scores:
        """Return the main score without each example in turn, shape (examples,): a jackknife.

        Where sums over examples are enough, `AdditiveMetric` gives it in one pass.

        Args:
            predicted: as for `score`.
        """
        score = self.resampler(predicted)
        bounds = self.gold.offsets
        n = len(predicted) if bounds is None else len(bounds) - 1
        at_once = max(1, _AT_ONCE // n)
        blocks = [range(first, min(first + at_once, n)) for first in range(0, n, at_once)]
        # of three examples, the second and third in a block: [[1, 0, 1], [1, 1, 0]]
        return np.concatenate([score(1.0 - np.eye(len(b), n, k=b.start)) for b in blocks])


class AdditiveMetric(Metric):
    """A metric whose main score is a function of sums over examples.

    Attributes:
        worst: the score of every sample where what an example adds is no finite number.
    """

    worst: ClassVar[float] = 0.0

    @abstractmethod
    def parts(self, predicted: np.ndarray) -> Parts:
        """Return what each example adds to the sums.

        Args:
            predicted: as for ``score``.
        """

    def combine(self, sums: Sums) -> Scores:
        """Return the main score of each sample: the first sum over the second, a mean of rows."""
        return ratio(sums[:, 0], sums[:, 1])

    def resampler(self, predicted: np.ndarray) -> Resampler:
        """Return the function from how often each example occurs in a sample to its main score."""
        parts = self.parts(predicted)
        if not np.isfinite(parts).all():
            return lambda counts: np.full(len(counts), self.worst)
        return lambda counts: self.combine(counts @ parts)

    def left_out(self, predicted: np.ndarray) -> Scores:
        """Return the main score without each example in turn: of all sums less its own."""
        parts = self.parts(predicted)
        return self.combine(parts.sum(axis=0) - parts)


class ClassMetric(AdditiveMetric):
    """Base of the metrics of class ids."""

    gold: Gold  # or `LabelSets`, of those with ``of_sets``


def per_example(rows: Shaped[np.ndarray, "rows parts"], offsets: Offsets | None) -> Parts:
    """Add up what the rows of each example hold; without ``offsets`` every row is an example."""
    if offsets is None:
        offsets = np.arange(len(rows) + 1)
    sums = np.zeros((len(rows) + 1, rows.shape[1]))
    with np.errstate(invalid="ignore"):  # what is no number makes none
        np.cumsum(rows, axis=0, out=sums[1:])
        return sums[offsets[1:]] - sums[offsets[:-1]]


def ratio(above: Scores, below: Scores) -> Scores:
    """Return ``above / below``, 0 where that is 0 / 0."""
    return above / np.maximum(below, 1.0)
