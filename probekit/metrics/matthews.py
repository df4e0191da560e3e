"""Matthews correlation, GLUE's metric for CoLA."""

import math
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from probekit.metrics.accuracy import Accuracy
from probekit.metrics.contract import ClassMetric, Parts, Scale, Scores, per_example
from probekit.metrics.gold import Ids, count_pairs


class Matthews(ClassMetric):
    """Correlation of gold and predicted class, -1..1 (Gorodkin 2004 for more than two classes).

    0 when all predictions, or all gold labels, are one class. ``accuracy`` is given beside it.
    """

    name: ClassVar[str] = "matthews"
    text: ClassVar[str] = "Matthews correlation"
    summary: ClassVar[str] = "Matthews correlation"
    scale: ClassVar[Scale] = Scale(lowest=-1.0)

    def parts(self, predicted: Ids) -> Parts:
        """Return of each example the right rows, and the gold and predicted rows of each class."""
        self.gold.check(predicted)
        classes = np.eye(len(self.gold.names))
        right = (predicted == self.gold.ids)[:, None]
        rows = np.concatenate([right, classes[self.gold.ids], classes[predicted]], axis=1)
        return per_example(rows, self.gold.offsets)

    def combine(self, sums: Float64[np.ndarray, "samples parts"]) -> Scores:
        """Return the correlation; 0 where all gold rows, or all predictions, are one class."""
        right, (gold, found) = sums[:, 0], np.split(sums[:, 1:], 2, axis=1)
        total = gold.sum(1)
        covariance = right * total - (gold * found).sum(1)
        spread = (total**2 - (gold**2).sum(1)) * (total**2 - (found**2).sum(1))
        return np.where(spread > 0, covariance / np.sqrt(np.where(spread > 0, spread, 1.0)), 0.0)

    def score(self, predicted: Ids) -> dict[str, float]:
        """Return ``matthews`` and ``accuracy``."""
        self.gold.check(predicted)
        counts = count_pairs(self.gold.ids, predicted, len(self.gold.names))
        gold, found = counts.sum(1), counts.sum(0)
        total, right = int(counts.sum()), int(counts.trace())
        covariance = right * total - int(gold @ found)
        spread = (total**2 - int(gold @ gold)) * (total**2 - int(found @ found))
        return {
            Matthews.name: covariance / math.sqrt(spread) if spread else 0.0,
            Accuracy.name: right / total,
        }
