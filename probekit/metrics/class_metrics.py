"""Metrics of classes (accuracy, F1, Matthews), and of their probabilities.

The latter are made of what a row's probabilities score against its gold class: of thousands of
classes no row's probabilities need be kept, four numbers per row are enough.
"""

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np
from jaxtyping import Float64, Shaped

from probekit.errors import OptionError
from probekit.metrics.contract import (
    AdditiveMetric,
    ClassMetric,
    Consumes,
    Gold,
    Ids,
    LossGold,
    Parts,
    Scale,
    Scores,
    Sums,
    check_count,
    count_pairs,
    per_example,
    ratio,
)
from probekit.metrics.number_metrics import ENDLESS


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

    def score(self, predicted: Ids) -> dict[str, float]:
        """Return ``{"accuracy": share}``."""
        self.gold.check(predicted)
        return {Accuracy.name: float((predicted == self.gold.ids).mean())}


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
                f"f1 needs two classes, one of them positive; found {len(names)}: "
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

    def combine(self, sums: Sums) -> Scores:
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

    def combine(self, sums: Sums) -> Scores:
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
    summary: ClassVar[str] = "gap between confidence and accuracy, 15 bins"
    scale: ClassVar[Scale] = Scale(greater_is_better=False)
    worst: ClassVar[float] = 1.0

    def terms(self, predicted: RowScores) -> Float64[np.ndarray, "rows parts"]:
        """Return each row's confidence less whether it is right, in its bin's column; and 1."""
        # |B| |acc - conf| is |sum over the bin of (confidence - right)|, so that sums are enough.
        # With 15 bins, 0.2 and 0.21 times 15 are 3 and 3.15: the bins 2, which ends at 0.2, and 3.
        confidence = predicted["confidence"].astype(np.float64)
        terms = np.zeros((len(confidence), BINS + 1))
        finite = np.nan_to_num(confidence)
        bins = np.clip(np.ceil(finite * BINS).astype(np.int64) - 1, 0, BINS - 1)
        terms[np.arange(len(terms)), bins] = confidence - predicted["right"]
        terms[:, BINS] = 1.0
        return terms

    def combine(self, sums: Sums) -> Scores:
        """Return the mean distance, each bin weighed by its rows."""
        return ratio(np.abs(sums[:, :BINS]).sum(1), sums[:, BINS])


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

    def score(self, predicted: RowScores) -> dict[str, float]:
        """Return ``loss``, and ``unseen rows`` where there are some."""
        scores = super().score(predicted)
        unseen = int(np.isnan(predicted["loss"]).sum())
        if unseen == len(predicted):
            scores = {self.name: self.worst}
        return scores | ({UNSEEN: float(unseen)} if unseen else {})
