"""F1 of the positive one of two classes, as GLUE scores MRPC and QQP."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from probekit.errors import OptionError
from probekit.metrics.accuracy import Accuracy
from probekit.metrics.contract import ClassMetric, Parts, Scores, per_example, ratio
from probekit.metrics.gold import Gold, Ids


class F1(ClassMetric):
    """F1 of the positive class: "1", or else the last of the two label names in sorted order.

    Scores: ``f1``, ``accuracy``, ``precision``, ``recall``; 0 where nothing is positive.
    """

    name: ClassVar[str] = "f1"
    text: ClassVar[str] = "F1"
    summary: ClassVar[str] = 'F1 of the positive class ("1"), for two classes'

    def __init__(self, gold: Gold) -> None:
        """Find the positive class.

        Raises:
            OptionError: there are more than two classes.
        """
        super().__init__(gold)
        names = gold.names
        if len(names) > 2:
            raise OptionError(
                f"f1 scores two classes, of which one is positive; found {len(names)}: "
                f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}. Choose micro-f1 or "
                "accuracy."
            )
        positive = "1" if {"0", "1"}.intersection(names) else max(names)
        self._positive = names.index(positive) if positive in names else -1

    def parts(self, predicted: Ids) -> Parts:
        """Return the right, the gold and the predicted positives of each example."""
        self.gold.check(predicted)
        gold, found = self.gold.ids == self._positive, predicted == self._positive
        rows = np.stack([gold & found, gold, found], axis=1)
        return per_example(rows, self.gold.offsets)

    def combine(self, sums: Float64[np.ndarray, "samples parts"]) -> Scores:
        """Return F1."""
        return ratio(2 * sums[:, 0], sums[:, 1] + sums[:, 2])

    def score(self, predicted: Ids) -> dict[str, float]:
        """Return F1, accuracy, precision and recall."""
        right, n_gold, n_found = (int(part) for part in self.parts(predicted).sum(0))
        return {
            F1.name: 2 * right / max(n_gold + n_found, 1),
            Accuracy.name: float((predicted == self.gold.ids).mean()),
            "precision": right / max(n_found, 1),
            "recall": right / max(n_gold, 1),
        }
