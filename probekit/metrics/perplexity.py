"""Perplexity: the exponential of the mean loss per row."""

import math
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from probekit.metrics.contract import (
    AdditiveMetric,
    Consumes,
    Parts,
    Resampler,
    Scale,
    Scores,
    per_example,
    ratio,
)
from probekit.metrics.gold import LossGold, Values, check_count

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
    gold: LossGold

    def parts(self, predicted: Values) -> Parts:
        """Return the loss and the number of rows of each example."""
        check_count(predicted, self.gold.n_rows, "row")
        offsets = self.gold.offsets
        rows = np.stack([np.asarray(predicted, np.float64), np.ones(len(predicted))], axis=1)
        return per_example(rows, np.arange(len(rows) + 1) if offsets is None else offsets)

    def resampler(self, predicted: Values) -> Resampler:
        """Return the function from samples to their scores; of losses without end, `ENDLESS`."""
        if not np.isfinite(predicted).all():
            check_count(predicted, self.gold.n_rows, "row")
            return lambda counts: np.full(len(counts), ENDLESS)
        return super().resampler(predicted)

    def combine(self, sums: Float64[np.ndarray, "samples parts"]) -> Scores:
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
