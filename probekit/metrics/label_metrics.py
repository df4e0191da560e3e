"""Metrics of each label by itself: F1 over labels, and how well scores rank rows for a label.

Rows have one class each, or any number of labels (`LabelSets`). Scores are scikit-learn's; but
where its score of a label is not defined, `Ranking` leaves the label out.
"""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float64

from probekit.metrics.class_metrics import Accuracy
from probekit.metrics.contract import (
    AnyGold,
    ClassMetric,
    Consumes,
    Counts,
    Gold,
    Ids,
    LabelScores,
    LabelSets,
    Metric,
    Parts,
    Resampler,
    Scale,
    Scores,
    Sums,
    padded,
    per_example,
    ratio,
)
from probekit.metrics.number_metrics import Ordered

Columns = Bool[np.ndarray, "rows labels"]
Along = Float64[np.ndarray, "groups samples"]
"""A number of each sample, at some scores from the highest on."""

_AT_ONCE = 1 << 21  # rows of a block of samples


def _columns(gold: Gold | LabelSets, predicted: Ids | LabelScores) -> tuple[Columns, Columns]:
    """Return which rows have each label, and which are said to."""
    if isinstance(gold, LabelSets):
        return gold.matrix, padded(predicted, *gold.matrix.shape) > 0
    gold.check(predicted)
    classes = np.arange(len(gold.names))
    return gold.ids[:, None] == classes, predicted[:, None] == classes


class MacroF1(ClassMetric):
    """Mean over labels of F1; of a label that no row has or is said to have it is 0.

    Of rows with one class each, such a class is left out, as scikit-learn does. Beside it are given
    what `MicroF1` scores, and ``f1/LABEL``.
    """

    name: ClassVar[str] = "macro-f1"
    text: ClassVar[str] = "macro F1"
    summary: ClassVar[str] = "mean over labels of their F1"
    of_sets: ClassVar[bool] = True

    def parts(self, predicted: Ids | LabelScores) -> Parts:
        """Return of each example the right, the gold and the predicted rows of each label."""
        gold, said = _columns(self.gold, predicted)
        return per_example(np.hstack([gold & said, gold, said]), self.gold.offsets)

    def combine(self, sums: Sums) -> Scores:
        """Return the mean of F1."""
        f1, counts = self._by_label(sums)
        return ratio((f1 * counts).sum(1), counts.sum(1))

    def _by_label(
        self, sums: Sums
    ) -> tuple[Float64[np.ndarray, "samples labels"], Bool[np.ndarray, "samples labels"]]:
        """Return F1, and which labels count."""
        right, gold, said = np.split(sums, 3, axis=1)
        return ratio(2 * right, gold + said), (gold + said > 0) | isinstance(self.gold, LabelSets)

    def score(self, predicted: Ids | LabelScores) -> dict[str, float]:
        """Return ``macro-f1``, those of `MicroF1`, and ``f1/LABEL``."""
        sums = self.parts(predicted).sum(0, keepdims=True)
        scores = {MacroF1.name: float(self.combine(sums)[0])} | MicroF1(self.gold).score(predicted)
        (f1,), (counts,) = self._by_label(sums)
        by_label = zip(self.gold.names, f1.tolist(), counts, strict=True)
        return scores | {f"f1/{name}": value for name, value, counted in by_label if counted}


class MicroF1(Accuracy):
    """F1 from the true and false positives and negatives of all labels, added up.

    With one label per text a wrong prediction is one false positive and one false negative, so
    this is the accuracy; it has the name under which intent classification is reported. Joined
    intents ("flight#airfare") are classes of their own.
    """

    name: ClassVar[str] = "micro-f1"
    text: ClassVar[str] = "micro F1"
    summary: ClassVar[str] = "F1 over all labels together; with one label per text, the accuracy"
    of_sets: ClassVar[bool] = True

    def parts(self, predicted: Ids | LabelScores) -> Parts:
        """Return what is right in each example, and all of it; right labels count twice."""
        if not self._of_sets:
            return super().parts(predicted)
        gold, said = _columns(self.gold, predicted)
        rows = np.stack([2 * (gold & said).sum(1), gold.sum(1) + said.sum(1)], axis=1)
        return per_example(rows, self.gold.offsets)

    def score(self, predicted: Ids | LabelScores) -> dict[str, float]:
        """Return ``micro-f1``, and ``accuracy`` of rows with one class each."""
        share = float(self.combine(self.parts(predicted).sum(0, keepdims=True))[0])
        return {MicroF1.name: share} | ({} if self._of_sets else {Accuracy.name: share})

    @property
    def _of_sets(self) -> bool:
        return isinstance(self.gold, LabelSets)


class Ranking(Metric):
    """Mean over labels of how well scores rank the rows that have the label above the others.

    Of two classes the second alone counts, of more each against the rest. A label that no row has
    is left out, and by all but `AveragePrecision` one that all rows have.

    Attributes:
        undefined: score where no label is left.
    """

    consumes: ClassVar[Consumes] = "scores"
    of_sets: ClassVar[bool] = True
    undefined: ClassVar[float]
    gold: Gold | LabelSets

    @abstractmethod
    def of_label(self, gained: Along, here: Along, above: Along, total: Scores) -> Scores:
        """Return the score of a label in each sample, 0 / 0 where it is not defined.

        Args:
            gained: rows with the label, at each score that some of them have.
            here: all rows with that score.
            above: all rows whose score is at least as high.
            total: all rows.
        """

    def resampler(self, predicted: LabelScores) -> Resampler:
        """Return a function that sums along the ranks of each label, sorted once."""
        gold, lengths = self.gold, np.diff(self.gold.offsets)
        n_rows, n_labels = int(gold.offsets[-1]), len(gold.names)
        if isinstance(gold, LabelSets):
            columns = dict(enumerate(gold.matrix.T))
        else:
            columns = {n: gold.ids == n for n in ([1] if n_labels == 2 else range(n_labels))}
        scores = padded(predicted, n_rows, n_labels)
        ranked = [(has, Ordered.of(-scores[:, n])) for n, has in columns.items() if has.any()]

        def of_block(counts: Counts) -> Scores:
            rows = np.repeat(np.ascontiguousarray(counts.T), lengths, axis=0)
            total, defined = np.zeros(len(counts)), np.zeros(len(counts))
            for has, ordered in ranked:
                # Scores 9 7 7 5, of which the label has the second and the last: of the groups 9, 7
                # and 5 the last two have some (`at`), which are places 1 to 3 and 3 to 4 of all,
                # and begin at 0 and 1 of `having`.
                having = ordered.order[has[ordered.order]]
                at, first = np.unique(ordered.group[having], return_index=True)
                sums = np.cumsum(rows[ordered.order], axis=0)
                start, stop = ordered.starts[at], np.append(ordered.starts, n_rows)[at + 1]
                above = sums[stop - 1]
                here = above - np.where(start[:, None] > 0, sums[start - 1], 0.0)
                with np.errstate(invalid="ignore"):
                    gained = np.add.reduceat(rows[having], first)
                    of_label = self.of_label(gained, here, above, sums[-1])
                total += np.nan_to_num(of_label)
                defined += ~np.isnan(of_label)
            return np.where(defined > 0, ratio(total, defined), self.undefined)

        at_once = max(1, _AT_ONCE // n_rows)
        return lambda counts: np.concatenate(
            [of_block(counts[n : n + at_once]) for n in range(0, len(counts), at_once)]
        )

    def score(self, predicted: LabelScores) -> dict[str, float]:
        """Return the mean over labels, under the metric's name."""
        every = np.ones((1, len(self.gold.offsets) - 1))
        return {self.name: float(self.resampler(predicted)(every)[0])}


class AUROC(Ranking):
    """How often a row with the label scores above one without it; ties count half."""

    name: ClassVar[str] = "auroc"
    text: ClassVar[str] = "AUROC"
    summary: ClassVar[str] = "area under the ROC curve; over labels, the mean of one against rest"
    undefined: ClassVar[float] = 0.5

    def of_label(self, gained: Along, here: Along, above: Along, total: Scores) -> Scores:
        """Return the share of pairs, of a row with the label and one without, in that order."""
        right = np.cumsum(gained, axis=0)
        others = total - right[-1]
        below = others - (above - right) + (here - gained) / 2
        return (gained * below).sum(0) / (right[-1] * others)


class PartialAUROC(Ranking):
    """The area under the ROC curve up to 10 % false positives, scaled so that chance is 0.5.

    McClish 1989, as scikit-learn's ``roc_auc_score(max_fpr=0.1)`` has it.
    """

    name: ClassVar[str] = "partial-auroc"
    text: ClassVar[str] = "partial AUROC"
    summary: ClassVar[str] = "area under the ROC curve up to 10 % false positives; chance is 0.5"
    undefined: ClassVar[float] = 0.5
    scale: ClassVar[Scale] = Scale(lowest=9 / 19)
    most: ClassVar[float] = 0.1
    """The false positive rate up to which the area counts."""

    def of_label(self, gained: Along, here: Along, above: Along, total: Scores) -> Scores:
        """Return the area below the flat pieces of the curve, and below those that rise."""
        right = np.cumsum(gained, axis=0)
        others = total - right[-1]
        # each score that rows with the label have is a rising piece, from x0 y0 to x1 y1, and the
        # curve is flat from there to the next one
        x0, y0 = (above - here - (right - gained)) / others, (right - gained) / right[-1]
        x1, y1 = (above - right) / others, right / right[-1]
        flat = np.concatenate([x0, np.ones_like(x0[:1])]).clip(max=self.most)
        flat -= np.concatenate([np.zeros_like(x1[:1]), x1]).clip(max=self.most)
        heights = np.concatenate([y0, np.ones_like(y0[:1])])
        wide = x1.clip(max=self.most) - x0.clip(max=self.most)
        part = np.divide(wide, x1 - x0, out=np.zeros_like(wide), where=x1 > x0)
        area = (flat * heights).sum(0) + (wide * (y0 + (y1 - y0) * part / 2)).sum(0)
        least = self.most**2 / 2
        scaled: Scores = (1 + (area - least) / (self.most - least)) / 2
        return scaled


class RecallAtFPR(Ranking):
    """The share of rows with the label above a threshold that 1 % of the others exceed at most."""

    name: ClassVar[str] = "recall-at-1-fpr"
    text: ClassVar[str] = "recall at 1 % false positives"
    summary: ClassVar[str] = "largest recall at a false positive rate of 1 % or less"
    undefined: ClassVar[float] = 0.0
    jumps: ClassVar[bool] = True
    most: ClassVar[float] = 0.01
    """The false positive rate that is allowed."""

    def of_label(self, gained: Along, here: Along, above: Along, total: Scores) -> Scores:
        """Return the largest recall of the scores at which few enough others are as high."""
        right = np.cumsum(gained, axis=0)
        others = total - right[-1]
        allowed = above - right <= self.most * others * (1 + 1e-12)
        recall: Scores = np.where(allowed, right, 0.0).max(0) / right[-1]
        return np.where(others > 0, recall, np.nan)


class AveragePrecision(Ranking):
    """Sum over scores, from the highest on, of the gain in recall times the precision there."""

    name: ClassVar[str] = "average-precision"
    text: ClassVar[str] = "average precision"
    summary: ClassVar[str] = "mean precision at each row with the label; over labels, the mean"
    undefined: ClassVar[float] = 0.0

    def of_label(self, gained: Along, here: Along, above: Along, total: Scores) -> Scores:
        """Return the sum."""
        right = np.cumsum(gained, axis=0)
        return (gained * ratio(right, above)).sum(0) / right[-1]


def alarm_threshold(has: Bool[np.ndarray, " rows"], scores: Scores) -> float:
    """Return the score above which an alarm is given: as low as `RecallAtFPR` allows on these rows.

    It lies half-way to the next lower score. Infinite if the highest score has too many others.

    Args:
        has: which rows have the label.
        scores: of the rows.
    """
    ordered = Ordered.of(-scores)
    false = np.add.reduceat(~has[ordered.order], ordered.starts).cumsum()
    allowed = np.flatnonzero(false <= RecallAtFPR.most * (~has).sum())
    if not len(allowed):
        return np.inf
    return _halfway(scores[ordered.order[ordered.starts]], int(allowed[-1]))


def _halfway(falling: Scores, place: int) -> float:
    """Return what lies half-way from a score to the next lower one; to 1 less from the last."""
    lower = falling[place + 1] if place + 1 < len(falling) else falling[place] - 1
    return float((falling[place] + lower) / 2)


def at_best_thresholds(gold: AnyGold, predicted: np.ndarray) -> np.ndarray:
    """Return the scores of sets of labels less their `best_thresholds`; all else as it is."""
    if isinstance(gold, LabelSets):
        return predicted - best_thresholds(gold, predicted)
    return predicted


def best_thresholds(gold: LabelSets, scores: LabelScores) -> Float64[np.ndarray, " labels"]:
    """Return for each label the score above which its F1 is best, half-way to the next lower one.

    Of equals the highest; 0 of a label that no row has.
    """
    thresholds = np.zeros(scores.shape[1])
    for label, column in enumerate(np.nan_to_num(scores.astype(np.float64)).T):
        has, ordered = gold.matrix[:, label], Ordered.of(-column)
        if has.any():
            ends = np.append(ordered.starts[1:], len(column))  # rows at least as high as each score
            right = np.cumsum(has[ordered.order])[ends - 1]
            best = int((2 * right / (ends + has.sum())).argmax())
            thresholds[label] = _halfway(column[ordered.order[ordered.starts]], best)
    return thresholds
