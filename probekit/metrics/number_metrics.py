"""Metrics of numbers: perplexity of losses, the mean squared error, and correlations."""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float64, Int64

from probekit.errors import OptionError
from probekit.metrics.contract import (
    AdditiveMetric,
    Consumes,
    Counts,
    LossGold,
    Metric,
    Parts,
    Resampler,
    Scale,
    Scores,
    Sums,
    ValueGold,
    Values,
    check_count,
    per_example,
    ratio,
)

ENDLESS = 1e150
"""What stands for infinity in records: JSON has none, and the square of this is finite."""

_LARGEST = math.log(ENDLESS)


class Perplexity(AdditiveMetric):
    """exp of the mean negative log-likelihood in nats; smaller is better.

    ``loss``, the mean itself, is given beside it. A mean that is not finite, or whose exponential
    is above `ENDLESS`, scores that: records have no infinity.
    """

    name: ClassVar[str] = "perplexity"
    text: ClassVar[str] = "perplexity"
    summary: ClassVar[str] = "exp of the mean loss per predicted token"
    scale: ClassVar[Scale] = Scale(percent=False, greater_is_better=False)
    consumes: ClassVar[Consumes] = "losses"
    worst: ClassVar[float] = ENDLESS
    gold: LossGold

    def parts(self, predicted: Values) -> Parts:
        """Return the loss and the number of rows of each example."""
        check_count(predicted, self.gold.n_rows, "row")
        rows = np.stack([np.asarray(predicted, np.float64), np.ones(len(predicted))], axis=1)
        return per_example(rows, self.gold.offsets)

    def combine(self, sums: Sums) -> Scores:
        """Return exp of the mean loss; of no rows, 1."""
        return np.exp(np.minimum(ratio(sums[:, 0], sums[:, 1]), _LARGEST))

    def score(self, predicted: Values) -> dict[str, float]:
        """Return ``perplexity`` and ``loss``; ``predicted`` are the losses of the rows."""
        check_count(predicted, self.gold.n_rows, "row")
        loss = float(np.asarray(predicted, np.float64).mean())
        if not math.isfinite(loss):
            loss = ENDLESS
        perplexity = math.exp(loss) if loss < _LARGEST else ENDLESS
        return {Perplexity.name: perplexity, "loss": loss}


class SquaredError(AdditiveMetric):
    """Mean of (value - gold)^2 in the unit of the targets, squared; smaller is better.

    A mean that is not finite scores `ENDLESS`: records have no infinity.
    """

    name: ClassVar[str] = "squared-error"
    text: ClassVar[str] = "mean squared error"
    summary: ClassVar[str] = "mean squared distance from the gold value"
    scale: ClassVar[Scale] = Scale(percent=False, greater_is_better=False, decimals=4)
    consumes: ClassVar[Consumes] = "values"
    worst: ClassVar[float] = ENDLESS
    gold: ValueGold

    def parts(self, predicted: Values) -> Parts:
        """Return the squared errors and the number of rows of each example."""
        errors = self._squares(predicted)
        return per_example(np.stack([errors, np.ones_like(errors)], axis=1), self.gold.offsets)

    def combine(self, sums: Sums) -> Scores:
        """Return the mean over rows, `ENDLESS` at most."""
        return np.minimum(super().combine(sums), ENDLESS)

    def score(self, predicted: Values) -> dict[str, float]:
        """Return ``{"squared-error": mean}``."""
        mean = float(self._squares(predicted).mean())
        return {SquaredError.name: mean if mean < ENDLESS else ENDLESS}

    def _squares(self, predicted: Values) -> Values:
        check_count(predicted, len(self.gold.values), "value")
        with np.errstate(over="ignore", invalid="ignore"):
            return np.square(np.asarray(predicted, np.float64) - self.gold.values)


class Spearman(Metric):
    """Correlation of the ranks of gold and predicted values, -1..1; equal values share a rank.

    ``pearson``, the correlation of the values themselves, is given beside it. Both are 0 when all
    predictions, or all gold values, are equal, and when a prediction is not finite.
    """

    name: ClassVar[str] = "spearman"
    text: ClassVar[str] = "Spearman correlation"
    summary: ClassVar[str] = "rank correlation of values"
    scale: ClassVar[Scale] = Scale(lowest=-1.0)
    consumes: ClassVar[Consumes] = "values"
    gold: ValueGold

    def __init__(self, gold: ValueGold) -> None:
        """Rank the gold values."""
        super().__init__(gold)
        self._ranks = ranks(gold.values)

    def resampler(self, predicted: Values) -> Resampler:
        """Return a function that ranks every sample anew, by sorting once."""
        check_count(predicted, len(self.gold.values), "row")
        if not np.isfinite(predicted).all():
            return lambda counts: np.zeros(len(counts))
        gold, guessed = Ordered.of(self.gold.values), Ordered.of(predicted)
        lengths = np.diff(self.gold.offsets)

        def score(counts: Counts) -> Scores:
            # rows come first, so that those of an order or a group are picked by whole lines
            rows = np.repeat(np.ascontiguousarray(counts.T), lengths, axis=0)
            return weighted_pearson(gold.ranks(rows), guessed.ranks(rows), rows)

        return score

    def score(self, predicted: Values) -> dict[str, float]:
        """Return ``spearman`` and ``pearson``."""
        check_count(predicted, len(self.gold.values), "row")
        if not np.issubdtype(predicted.dtype, np.floating):
            raise OptionError(f"spearman scores numbers; found predictions of {predicted.dtype}.")
        if not np.isfinite(predicted).all():
            return {Spearman.name: 0.0, "pearson": 0.0}
        return {
            Spearman.name: pearson(self._ranks, ranks(predicted)),
            "pearson": pearson(self.gold.values, predicted),
        }


@dataclass(frozen=True, eq=False)
class Ordered:
    """Values sorted once, so that the ranks in any resample of them are a running sum.

    Attributes:
        order: rows by ascending value.
        starts: position in ``order`` of the first of each group of equal values.
        group: group of each row.
    """

    order: Int64[np.ndarray, " rows"]
    starts: Int64[np.ndarray, " groups"]
    group: Int64[np.ndarray, " rows"]

    @classmethod
    def of(cls, values: Values) -> Self:
        """Sort values."""
        _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        return cls(np.argsort(group, kind="stable"), starts, group)

    def ranks(
        self, counts: Float64[np.ndarray, "rows samples"]
    ) -> Float64[np.ndarray, "rows samples"]:
        """Return each row's rank in each sample, given how often rows occur there."""
        # Values [5, 1, 5], each drawn once: order [1, 0, 2], groups of 1 and of 5 that start at
        # [0, 1] in it. Their sizes are [1, 2], their last ranks [1, 3], their mean ranks [1, 2.5],
        # and so the rows' [2.5, 1, 2.5].
        sizes = np.add.reduceat(counts[self.order], self.starts, axis=0)
        last = np.cumsum(sizes, axis=0)
        return (last - (sizes - 1) / 2)[self.group]


def weighted_pearson(
    x: Float64[np.ndarray, "rows samples"],
    y: Float64[np.ndarray, "rows samples"],
    weights: Float64[np.ndarray, "rows samples"],
) -> Scores:
    """Return the correlation of weighted rows in each sample, 0 if one side is constant."""
    total = np.maximum(weights.sum(0), 1.0)
    x = x - np.einsum("rs,rs->s", weights, x) / total
    y = y - np.einsum("rs,rs->s", weights, y) / total
    covariance = np.einsum("rs,rs,rs->s", weights, x, y)
    spread = np.einsum("rs,rs,rs->s", weights, x, x) * np.einsum("rs,rs,rs->s", weights, y, y)
    return np.where(spread > 0, covariance / np.sqrt(np.where(spread > 0, spread, 1.0)), 0.0)


def ranks(values: Values) -> Values:
    """Return the rank of each value from 1; equal values get the mean of their ranks."""
    _, index, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[index]


def pearson(x: Values, y: Values) -> float:
    """Return the correlation of two columns, 0 if one of them is constant."""
    if x.min() == x.max() or y.min() == y.max():
        return 0.0
    x, y = _centred(x), _centred(y)
    spread = math.sqrt(float(x @ x) * float(y @ y))
    return float(np.clip(x @ y / spread, -1.0, 1.0)) if spread > 0 else 0.0


def _centred(values: Values) -> Values:
    """Return values around 0, scaled to about 1 so that no square overflows."""
    values = values.astype(np.float64)
    values = values / np.abs(values).max()
    return values - values.mean()
