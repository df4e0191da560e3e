"""Metrics: prepared once with the gold labels of a split, they score predictions fast.

To add a metric, write one file with a `Metric` and its `Scorer`, and one line in ``METRICS``.
"""

from probekit.metrics.accuracy import Accuracy
from probekit.metrics.contract import Gold, Metric, Scorer, encode_gold
from probekit.metrics.span_f1 import SpanF1, span_f1_seqeval

METRICS: dict[str, type[Metric]] = {
    "span-f1": SpanF1,
    "accuracy": Accuracy,
}

__all__ = [
    "METRICS",
    "Accuracy",
    "Gold",
    "Metric",
    "Scorer",
    "SpanF1",
    "encode_gold",
    "span_f1_seqeval",
]
