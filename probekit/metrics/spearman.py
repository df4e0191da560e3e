"""Spearman and Pearson correlation, GLUE's metrics for STS-B."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from probekit.errors import OptionError
from probekit.metrics.contract import Consumes, Metric, Scorer, check_count, expect
from probekit.metrics.gold import AnyGold, ValueGold, Values


@dataclass(frozen=True, kw_only=True)
class Spearman(Metric):
    """Correlation of the ranks of gold and predicted values, -1..1; equal values share a rank.

    ``pearson``, the correlation of the values themselves, is given beside it. Both are 0 when all
    predictions, or all gold values, are equal, and when a prediction is not finite.
    """

    name: ClassVar[str] = "spearman"
    summary: ClassVar[str] = "rank correlation of values"
    consumes: ClassVar[Consumes] = "values"

    def prepare(self, gold: AnyGold) -> "SpearmanScorer":
        """Return the scorer of one split; the gold values are ranked once, here."""
        return SpearmanScorer(expect(self, gold, ValueGold))


class SpearmanScorer(Scorer):
    """Scorer of `Spearman`."""

    def __init__(self, gold: ValueGold) -> None:
        """Rank the gold values."""
        self.gold = gold
        self._ranks = ranks(gold.values)

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


def ranks(values: Values) -> Values:
    """Return the rank of each value from 1; equal values get the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]


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
