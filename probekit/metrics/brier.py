"""Brier score: the squared distance of a row's probabilities from its gold class."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from probekit.metrics.contract import Scale, Scores, ratio
from probekit.metrics.row_scores import ProbabilityMetric, RowScores


class Brier(ProbabilityMetric):
    """Mean over rows of sum_c (p_c - y_c)^2, from 0 to 2 (Brier 1950, equation 2).

    The sum runs over all classes, so that of two it is twice what is often called the Brier score
    of a binary event. A gold class that train did not have is one more class, of probability 0.
    """

    name: ClassVar[str] = "brier"
    text: ClassVar[str] = "Brier score"
    summary: ClassVar[str] = "squared distance of the probabilities from the gold class"
    scale: ClassVar[Scale] = Scale(percent=False, greater_is_better=False, decimals=4)
    worst: ClassVar[float] = 2.0

    def terms(self, predicted: RowScores) -> Float64[np.ndarray, "rows parts"]:
        """Return each row's distance, and 1."""
        distances = predicted["brier"].astype(np.float64)
        return np.stack([distances, np.ones(len(distances))], axis=1)

    def combine(self, sums: Float64[np.ndarray, "samples parts"]) -> Scores:
        """Return the mean over rows."""
        return ratio(sums[:, 0], sums[:, 1])
