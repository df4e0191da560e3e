"""What the probabilities of a row score against its gold class, and metrics made of that.

Of thousands of classes no row's probabilities need be kept for it: four numbers per row are enough.
"""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from jaxtyping import Float64, Shaped

from probekit.metrics.contract import (
    AdditiveMetric,
    Consumes,
    Parts,
    per_example,
)
from probekit.metrics.gold import LossGold, check_count

ROW_SCORES = np.dtype(
    [("loss", np.float32), ("confidence", np.float32), ("brier", np.float32), ("right", np.bool_)]
)
"""One item per row:

- ``loss``: negative logarithm of the gold class's probability, in nats; NaN of a gold class that
  train did not have, whose probability is 0 whatever was learned.
- ``confidence``: probability of the predicted class.
- ``brier``: sum over classes of (probability - 1 if gold else 0) squared, 0 to 2; a gold class that
  train did not have is one more class, of probability 0.
- ``right``: whether the predicted class is the gold one.
"""

RowScores = Shaped[np.ndarray, " rows"]


class ProbabilityMetric(AdditiveMetric):
    """Base of the metrics of `ROW_SCORES`; smaller is better.

    Where a row's probabilities are no numbers, all of them score ``worst``.
    """

    consumes: ClassVar[Consumes] = "probabilities"
    gold: LossGold

    @abstractmethod
    def terms(self, predicted: RowScores) -> Float64[np.ndarray, "rows parts"]:
        """Return what each row adds to the sums."""

    def parts(self, predicted: RowScores) -> Parts:
        """Return what each example adds to the sums."""
        check_count(predicted, self.gold.n_rows, "row")
        return per_example(self.terms(predicted), self.gold.offsets)

    def score(self, predicted: RowScores) -> dict[str, float]:
        """Return the score of all rows, under the metric's name."""
        check_count(predicted, self.gold.n_rows, "row")
        sums = self.terms(predicted).sum(0, keepdims=True)
        finite = bool(np.isfinite(sums).all())
        return {self.name: float(self.combine(sums)[0]) if finite else self.worst}
