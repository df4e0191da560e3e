"""Mean squared error: the loss of a regression."""

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
from probekit.metrics.gold import ValueGold, Values, check_count
from probekit.metrics.perplexity import ENDLESS


class SquaredError(AdditiveMetric):
    """Mean of (value - gold)^2 in the unit of the targets, squared; smaller is better.

    A mean that is not finite scores `ENDLESS`: records have no infinity.
    """

    name: ClassVar[str] = "squared-error"
    text: ClassVar[str] = "mean squared error"
    summary: ClassVar[str] = "mean squared distance from the gold value"
    scale: ClassVar[Scale] = Scale(percent=False, greater_is_better=False, decimals=4)
    consumes: ClassVar[Consumes] = "values"
    gold: ValueGold

    def parts(self, predicted: Values) -> Parts:
        """Return the squared errors and the number of rows of each example."""
        errors = self._squares(predicted)
        return per_example(np.stack([errors, np.ones_like(errors)], axis=1), self.gold.offsets)

    def combine(self, sums: Float64[np.ndarray, "samples parts"]) -> Scores:
        """Return the mean over rows."""
        return ratio(sums[:, 0], sums[:, 1])

    def resampler(self, predicted: Values) -> Resampler:
        """Return the function from samples to their scores; of errors without end, `ENDLESS`."""
        if self.score(predicted)[SquaredError.name] == ENDLESS:
            return lambda counts: np.full(len(counts), ENDLESS)
        return super().resampler(predicted)

    def score(self, predicted: Values) -> dict[str, float]:
        """Return ``{"squared-error": mean}``."""
        mean = float(self._squares(predicted).mean())
        return {SquaredError.name: mean if mean < ENDLESS else ENDLESS}

    def _squares(self, predicted: Values) -> Values:
        check_count(predicted, len(self.gold.values), "value")
        with np.errstate(over="ignore", invalid="ignore"):
            return np.square(np.asarray(predicted, np.float64) - self.gold.values)
