"""Log loss: the mean negative logarithm of the probability that a row's gold class was given."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from probekit.metrics.contract import Scale, Scores, ratio
from probekit.metrics.perplexity import ENDLESS
from probekit.metrics.row_scores import ProbabilityMetric, RowScores

UNSEEN = "unseen rows"
"""Number of rows that the loss leaves out, since train did not have their class."""


class LogLoss(ProbabilityMetric):
    """Mean of -log p(gold class) over rows, in nats; smaller is better (Good 1952).

    Rows of a class that train did not have are left out, since their loss is infinite whatever was
    learned; ``unseen rows`` says how many, where there are some. Where all rows are such, or a loss
    is not finite, the score is `ENDLESS`.

    Of a chain (CRF) p is the marginal probability of a word's tag, summed over all paths, so that
    its loss compares with that of other decoders; it is not the sentence's likelihood per word,
    which training minimises.
    """

    name: ClassVar[str] = "loss"
    text: ClassVar[str] = "loss (nats)"
    summary: ClassVar[str] = "mean negative log-likelihood of a row's gold class"
    scale: ClassVar[Scale] = Scale(percent=False, greater_is_better=False, decimals=4)
    worst: ClassVar[float] = ENDLESS

    def terms(self, predicted: RowScores) -> Float64[np.ndarray, "rows parts"]:
        """Return each row's loss and whether it counts."""
        losses = predicted["loss"].astype(np.float64)
        counts = ~np.isnan(losses)
        return np.stack([np.where(counts, losses, 0.0), counts], axis=1)

    def combine(self, sums: Float64[np.ndarray, "samples parts"]) -> Scores:
        """Return the mean over the rows that count."""
        return ratio(sums[:, 0], sums[:, 1])

    def score(self, predicted: RowScores) -> dict[str, float]:
        """Return ``loss``, and ``unseen rows`` where there are some."""
        found = super().score(predicted)
        unseen = int(np.isnan(predicted["loss"]).sum())
        if unseen == len(predicted):
            found = {self.name: self.worst}
        return found | ({UNSEEN: float(unseen)} if unseen else {})
