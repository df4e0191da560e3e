"""Metrics: prepared once with the gold labels of a split, they score predictions fast.

To add a metric to probekit, write one file with a `Metric`, and one line in ``_OWN``.
"""

from collections.abc import Mapping

from probekit.base.plugins import Registry
from probekit.metrics.class_metrics import (
    F1,
    ROW_SCORES,
    UNSEEN,
    Accuracy,
    Brier,
    CalibrationError,
    LogLoss,
    Matthews,
)
from probekit.metrics.contract import (
    AnyGold,
    Gold,
    LabelSets,
    LossGold,
    Metric,
    Scale,
    ValueGold,
    confusion,
    encode_gold,
)
from probekit.metrics.label_metrics import (
    AUROC,
    AveragePrecision,
    MacroF1,
    MicroF1,
    PartialAUROC,
    RecallAtFPR,
    alarm_threshold,
    best_thresholds,
)
from probekit.metrics.number_metrics import Perplexity, Spearman, SquaredError
from probekit.metrics.span_f1 import SpanF1

_OWN: Mapping[str, type[Metric]] = {
    "span-f1": SpanF1,
    "accuracy": Accuracy,
    "micro-f1": MicroF1,
    "f1": F1,
    "macro-f1": MacroF1,
    "auroc": AUROC,
    "average-precision": AveragePrecision,
    "partial-auroc": PartialAUROC,
    "recall-at-1-fpr": RecallAtFPR,
    "matthews": Matthews,
    "spearman": Spearman,
    "perplexity": Perplexity,
    "squared-error": SquaredError,
    "loss": LogLoss,
    "ece": CalibrationError,
    "brier": Brier,
}

COMPRESSION = "compression"
"""Score of an online code: how much shorter it is than the uniform one. No `Metric` computes it."""

METRICS = Registry(
    "metric",
    _OWN,
    admit="probekit.testing.metric_checks:METRIC.admit",
    reserved=(COMPRESSION, UNSEEN),
    contracts=[f"{__name__}.contract:Metric"],
)


def register_metric(name: str, metric: type[Metric], *, version: str | None = None) -> None:
    """Add a metric of your own, for this process and its workers.

    Args:
        name: as tasks ask for it.
        metric: a `Metric` of this name.
        version: what tells it from an earlier one in the keys of records; None is its source.

    Raises:
        PluginError: the name is taken, or the metric breaks its contract.
    """
    METRICS.register(name, metric, version=version)


OF_PROBABILITIES: tuple[type[Metric], ...] = (LogLoss, CalibrationError, Brier)
"""What every run of classes is scored with, beside the metric of its task."""

OF_SCORES: tuple[type[Metric], ...] = (AUROC, AveragePrecision, PartialAUROC, RecallAtFPR)
"""The same of sets of labels, and of classes where predictions are kept."""


def scale_of(metric: str) -> Scale:
    """Return the scale of a metric; of one that is unknown (a newer version's), percent."""
    if metric in (COMPRESSION, UNSEEN):
        return Scale(percent=False)
    return METRICS[metric].scale if metric in METRICS else Scale()


__all__ = [
    "AUROC",
    "COMPRESSION",
    "F1",
    "METRICS",
    "OF_PROBABILITIES",
    "OF_SCORES",
    "ROW_SCORES",
    "Accuracy",
    "AnyGold",
    "AveragePrecision",
    "Brier",
    "CalibrationError",
    "Gold",
    "LabelSets",
    "LogLoss",
    "LossGold",
    "MacroF1",
    "Matthews",
    "Metric",
    "MicroF1",
    "Perplexity",
    "RecallAtFPR",
    "Scale",
    "SpanF1",
    "Spearman",
    "SquaredError",
    "ValueGold",
    "alarm_threshold",
    "best_thresholds",
    "confusion",
    "encode_gold",
    "register_metric",
    "scale_of",
]
