"""Accuracy, and micro F1, which equals it where every row has one label."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from probekit.metrics.contract import ClassMetric, Parts, Scores, per_example, ratio
from probekit.metrics.gold import Ids


class Accuracy(ClassMetric):
    """The share of rows (words, or texts) whose predicted label is the gold one."""

    name: ClassVar[str] = "accuracy"
    text: ClassVar[str] = "accuracy"
    summary: ClassVar[str] = "share of words or texts whose label is right"

    def parts(self, predicted: Ids) -> Parts:
        """Return the right rows and all rows of each example."""
        self.gold.check(predicted)
        right = predicted == self.gold.ids
        rows = np.stack([right, np.ones_like(right)], axis=1)
        return per_example(rows, self.gold.offsets)

    def combine(self, sums: Float64[np.ndarray, "samples parts"]) -> Scores:
        """Return the share of right rows."""
        return ratio(sums[:, 0], sums[:, 1])

    def score(self, predicted: Ids) -> dict[str, float]:
        """Return ``{"accuracy": share}``."""
        self.gold.check(predicted)
        return {Accuracy.name: float((predicted == self.gold.ids).mean())}


class MicroF1(Accuracy):
    """F1 from the true and false positives and negatives of all classes, added up.

    With one label per text a wrong prediction is one false positive and one false negative, so
    this is the accuracy; it has the name under which intent classification is reported. Joined
    intents ("flight#airfare") are classes of their own.
    """

    name: ClassVar[str] = "micro-f1"
    text: ClassVar[str] = "micro F1"
    summary: ClassVar[str] = "F1 over all classes together; with one label per text, the accuracy"

    def score(self, predicted: Ids) -> dict[str, float]:
        """Return ``micro-f1`` and ``accuracy``."""
        share = super().score(predicted)[Accuracy.name]
        return dict.fromkeys((MicroF1.name, Accuracy.name), share)
