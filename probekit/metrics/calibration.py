"""Expected calibration error: how far confidence lies from the share that is right."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from probekit.metrics.contract import Scale, Scores, ratio
from probekit.metrics.row_scores import ProbabilityMetric, RowScores

BINS = 15
"""Bins of confidence, as in Guo et al. (2017)."""


class CalibrationError(ProbabilityMetric):
    """sum_m |B_m| / n |acc(B_m) - conf(B_m)|, B_m the rows of a bin (Guo et al. 2017, equation 5).

    Of ``BINS`` bins of equal width, the m-th holds the confidences in ((m - 1) / M, m / M]. A row's
    confidence is the probability of the class that is predicted: the most probable one, but of a
    chain (CRF) the marginal probability of the tag on the best path. A row of a class that train
    did not have is wrong. The estimate is biased upwards where rows are few.
    """

    name: ClassVar[str] = "ece"
    text: ClassVar[str] = "expected calibration error"
    summary: ClassVar[str] = "how far confidence lies from the share that is right, 15 bins"
    scale: ClassVar[Scale] = Scale(greater_is_better=False)
    worst: ClassVar[float] = 1.0

    def terms(self, predicted: RowScores) -> Float64[np.ndarray, "rows parts"]:
        """Return each row's confidence less whether it is right, in its bin's column; and 1."""
        # |B| |acc - conf| is |sum over the bin of (confidence - right)|, so that sums are enough.
        # With 15 bins, 0.2 and 0.21 times 15 are 3 and 3.15: the bins 2, which ends at 0.2, and 3.
        confidence = predicted["confidence"].astype(np.float64)
        found = np.zeros((len(confidence), BINS + 1))
        known = np.nan_to_num(confidence)
        bins = np.clip(np.ceil(known * BINS).astype(np.int64) - 1, 0, BINS - 1)
        found[np.arange(len(found)), bins] = confidence - predicted["right"]
        found[:, BINS] = 1.0
        return found

    def combine(self, sums: Float64[np.ndarray, "samples parts"]) -> Scores:
        """Return the mean distance, each bin weighed by its rows."""
        return ratio(np.abs(sums[:, :BINS]).sum(1), sums[:, BINS])
