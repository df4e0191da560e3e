"""Perplexity: the exponential of the mean loss per row."""

import math
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from probekit.metrics.contract import Consumes, Metric, Scorer, check_count, expect
from probekit.metrics.gold import AnyGold, LossGold, Values


@dataclass(frozen=True, kw_only=True)
class Perplexity(Metric):
    """exp of the mean negative log-likelihood in nats; smaller is better.

    ``loss``, the mean itself, is given beside it. A mean that is not finite, or whose exponential
    is not, scores the largest float: records have no infinity.
    """

    name: ClassVar[str] = "perplexity"
    summary: ClassVar[str] = "exp of the mean loss per predicted token"
    greater_is_better: ClassVar[bool] = False
    percent: ClassVar[bool] = False
    consumes: ClassVar[Consumes] = "losses"

    def prepare(self, gold: AnyGold) -> "PerplexityScorer":
        """Return the scorer of one split."""
        return PerplexityScorer(expect(self, gold, LossGold))


class PerplexityScorer(Scorer):
    """Scorer of `Perplexity`."""

    def __init__(self, gold: LossGold) -> None:
        """Keep the number of rows."""
        self.gold = gold

    def score(self, predicted: Values) -> dict[str, float]:
        """Return ``perplexity`` and ``loss``; ``predicted`` are the losses of the rows."""
        check_count(predicted, self.gold.n_rows, "row")
        loss = float(np.asarray(predicted, np.float64).mean())
        if not math.isfinite(loss):
            loss = sys.float_info.max
        largest = math.log(sys.float_info.max)
        perplexity = math.exp(loss) if loss < largest else sys.float_info.max
        return {Perplexity.name: perplexity, "loss": loss}
