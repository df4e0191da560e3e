"""Metrics of named classes: accuracy, and GLUE's F1 of the positive one and Matthews."""

import math
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from probekit.errors import OptionError
from probekit.metrics.contract import ClassMetric, Parts, Scale, Scores, per_example, ratio
from probekit.metrics.gold import Gold, Ids, count_pairs


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
        gold, predicted_positive = self.gold.ids == self._positive, predicted == self._positive
        rows = np.stack([gold & predicted_positive, gold, predicted_positive], axis=1)
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
        right, (gold, guessed) = sums[:, 0], np.split(sums[:, 1:], 2, axis=1)
        total = gold.sum(1)
        covariance = right * total - (gold * guessed).sum(1)
        spread = (total**2 - (gold**2).sum(1)) * (total**2 - (guessed**2).sum(1))
        return np.where(spread > 0, covariance / np.sqrt(np.where(spread > 0, spread, 1.0)), 0.0)

    def score(self, predicted: Ids) -> dict[str, float]:
        """Return ``matthews`` and ``accuracy``."""
        self.gold.check(predicted)
        counts = count_pairs(self.gold.ids, predicted, len(self.gold.names))
        gold, guessed = counts.sum(1), counts.sum(0)
        total, right = int(counts.sum()), int(counts.trace())
        covariance = right * total - int(gold @ guessed)
        spread = (total**2 - int(gold @ gold)) * (total**2 - int(guessed @ guessed))
        return {
            Matthews.name: covariance / math.sqrt(spread) if spread else 0.0,
            Accuracy.name: right / total,
        }
