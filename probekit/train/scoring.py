"""Score many members on one split in one pass: each row is read and normalised once for all."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probekit.features import FeatureView
from probekit.metrics import AnyGold, Gold, LossGold, Metric, ValueGold, confusion
from probekit.probe.heads.contract import HeadInput, LayerWeights, Reads
from probekit.train.member import Member
from probekit.train.sampling import type_names
from probekit.train.source import Inputs, Source

MOST_CLASSES = 200
"""Of more, no record should hold a confusion."""


class ScoredSplit:
    """A split whose gold labels were prepared once.

    Attributes:
        view: its rows.
        sources: what the members read of them.
        metric: what scores it; its main score has its name.
        scorer: the metric, prepared with its gold labels.
    """

    def __init__(
        self, view: FeatureView, sources: Mapping[Reads, Source], metric: type[Metric]
    ) -> None:
        """Prepare the metric."""
        self.view = view
        self.sources = sources
        self.metric = metric
        self.scorer = metric(gold_of(view, metric))

    def predict(self, members: Sequence[Member]) -> list[np.ndarray]:
        """Return what the metric consumes of each member: a class, value or loss per row."""
        parts: dict[Member, list[Tensor]] = {member: [] for member in members}
        for member, z, inputs in self.visit(members):
            if self.metric.consumes == "losses":
                found: Tensor = member.probe.row_losses(z, inputs.targets, inputs.offsets)
            else:
                found = member.probe.predict(z, inputs.offsets)
            parts[member].append(found.double() if found.is_floating_point() else found)
        return [torch.cat(parts[member]).cpu().numpy() for member in members]

    def visit(self, members: Sequence[Member]) -> Iterator[tuple[Member, HeadInput, Inputs]]:
        """Yield each block of rows for each member, as it reads them and as they came."""
        for reads, source in self.sources.items():
            chosen = [member for member in members if member.spec.head.reads == reads]
            for inputs in source.blocks() if chosen else ():
                for member in chosen:
                    yield member, inputs.of(member.normalization, member.spec.layers), inputs


def gold_of(view: FeatureView, metric: type[Metric]) -> AnyGold:
    """Return a view's targets as a metric wants them."""
    if metric.consumes == "losses":
        return LossGold(len(view))
    if metric.consumes == "values":
        return ValueGold(view.targets, view.offsets)
    return Gold(ids=view.targets, offsets=view.offsets, names=view.all_names)


def weights_by_class(weights: LayerWeights, view: FeatureView) -> dict[str, dict[int, float]]:
    """Return the mean weight of each layer over the rows of each gold class.

    Classes of tags (``B-PER``, ``I-PER``) are their types; ``O`` is one as well.

    Args:
        weights: of every row of the view, in order.
        view: the scored rows.

    Returns:
        Nothing for weights that are the same in all rows, and where there are no classes.
    """
    if weights.weights.ndim == 1 or not len(view.labels):
        return {}
    types = np.array(type_names(view.all_names))[view.targets]
    return {
        str(name): weights.select(torch.from_numpy(types == name)).by_layer()
        for name in np.unique(types)
    }


def confusion_of(split: ScoredSplit, predicted: np.ndarray) -> dict[str, Any] | None:
    """Return how often each gold class was predicted as which.

    Returns:
        None without classes, and with more than ``MOST_CLASSES``.
    """
    types = type_names(split.view.all_names)
    gold = split.scorer.gold
    if not isinstance(gold, Gold) or not 0 < len(set(types)) <= MOST_CLASSES:
        return None
    rows, columns, counts = confusion(gold, predicted, types)
    return {"rows": list(rows), "columns": list(columns), "counts": counts.tolist()}
