"""Matthews correlation, GLUE's metric for CoLA."""

import math
from dataclasses import dataclass
from typing import ClassVar

from probekit.metrics.accuracy import Accuracy
from probekit.metrics.confusion import count_pairs
from probekit.metrics.contract import ClassScorer, Metric, expect
from probekit.metrics.gold import AnyGold, Gold, Ids


@dataclass(frozen=True, kw_only=True)
class Matthews(Metric):
    """Correlation of gold and predicted class, -1..1 (Gorodkin 2004 for more than two classes).

    0 when all predictions, or all gold labels, are one class. ``accuracy`` is given beside it.
    """

    name: ClassVar[str] = "matthews"
    summary: ClassVar[str] = "Matthews correlation"

    def prepare(self, gold: AnyGold) -> "MatthewsScorer":
        """Return the scorer of one split."""
        return MatthewsScorer(expect(self, gold, Gold))


class MatthewsScorer(ClassScorer):
    """Scorer of `Matthews`."""

    def score(self, predicted: Ids) -> dict[str, float]:
        """Return ``matthews`` and ``accuracy``."""
        self.check(predicted)
        counts = count_pairs(self.gold.ids, predicted, len(self.gold.names))
        gold, found = counts.sum(1), counts.sum(0)
        total, right = int(counts.sum()), int(counts.trace())
        covariance = right * total - int(gold @ found)
        spread = (total**2 - int(gold @ gold)) * (total**2 - int(found @ found))
        return {
            Matthews.name: covariance / math.sqrt(spread) if spread else 0.0,
            Accuracy.name: right / total,
        }
