"""Metrics: prepared once with the gold labels of a split, they score predictions fast.

To add a metric, write one file with a `Metric` and its `Scorer`, and one line in ``METRICS``.
"""

from probekit.metrics.accuracy import Accuracy
from probekit.metrics.contract import ClassScorer, Metric, Scorer
from probekit.metrics.gold import AnyGold, Gold, LossGold, ValueGold, encode_gold
from probekit.metrics.span_f1 import SpanF1, span_f1_seqeval

METRICS: dict[str, type[Metric]] = {
    "span-f1": SpanF1,
    "accuracy": Accuracy,
}

__all__ = [
    "METRICS",
    "Accuracy",
    "AnyGold",
    "ClassScorer",
    "Gold",
    "LossGold",
    "Metric",
    "Scorer",
    "SpanF1",
    "ValueGold",
    "encode_gold",
    "span_f1_seqeval",
]
