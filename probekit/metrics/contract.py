"""What every metric promises: prepared once with the gold labels, it scores predictions fast."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import numpy as np
from jaxtyping import Float64, Shaped

from probekit.errors import OptionError
from probekit.metrics.gold import AnyGold, Gold, LossGold, Offsets, ValueGold

T = TypeVar("T")
Consumes = Literal["classes", "values", "losses", "probabilities"]

Counts = Float64[np.ndarray, "samples examples"]
"""How often each example of a split occurs in each of some samples."""

Parts = Float64[np.ndarray, "examples parts"]
Scores = Float64[np.ndarray, " samples"]
Resampler = Callable[[Counts], Scores]

_AT_ONCE = 1 << 21  # numbers of a block of samples

_GOLD: dict[Consumes, type] = {
    "classes": Gold,
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
        consumes: what is scored: class ids against `Gold`, values against `ValueGold`, the losses
            of rows (`LossGold`), or what their probabilities score (`ROW_SCORES`, `LossGold`).
        gold: the gold side of the split.
    """

    name: ClassVar[str]
    text: ClassVar[str]
    summary: ClassVar[str]
    scale: ClassVar[Scale] = Scale()
    consumes: ClassVar[Consumes] = "classes"

    def __init__(self, gold: AnyGold) -> None:
        """Keep the gold side; subclasses then find what they need of it, once.

        Raises:
            OptionError: the gold side is not of the kind that the metric consumes.
        """
        kind = _GOLD[self.consumes]
        if not isinstance(gold, kind):
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

    def judge(self, predicted: np.ndarray) -> dict[str, float]:
        """Return the scores by the reference implementation, for a final number.

        The same as `score`, unless the metric has an outside judge that is too slow for a loop.
        """
        return self.score(predicted)


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

    @abstractmethod
    def combine(self, sums: Float64[np.ndarray, "samples parts"]) -> Scores:
        """Return the main score of each sample from its sums."""

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

    gold: Gold


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
