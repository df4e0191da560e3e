"""Accuracy: the share of words whose label is right."""

from dataclasses import dataclass
from typing import ClassVar

from probekit.metrics.contract import ClassScorer, Metric, expect
from probekit.metrics.gold import AnyGold, Gold, Ids


@dataclass(frozen=True, kw_only=True)
class Accuracy(Metric):
    """The share of words whose predicted label is the gold one."""

    name: ClassVar[str] = "accuracy"
    summary: ClassVar[str] = "share of words whose label is right"

    def prepare(self, gold: AnyGold) -> "AccuracyScorer":
        """Return the scorer of one split."""
        return AccuracyScorer(expect(self, gold, Gold))


class AccuracyScorer(ClassScorer):
    """Scorer of `Accuracy`."""

    def score(self, predicted: Ids) -> dict[str, float]:
        """Return ``{"accuracy": share}``."""
        self.check(predicted)
        return {Accuracy.name: float((predicted == self.gold.ids).mean())}
