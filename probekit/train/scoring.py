"""Score many members on one split in one pass: each row is read and normalised once for all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probekit.features import FeatureView
from probekit.metrics import (
    OF_PROBABILITIES,
    AnyGold,
    Gold,
    LossGold,
    Metric,
    SquaredError,
    ValueGold,
    confusion,
)
from probekit.probe.heads.contract import HeadInput, LayerWeights, Reads
from probekit.train.member import Member
from probekit.train.row_probabilities import Block, RowProbabilities, assess
from probekit.train.sampling import type_names
from probekit.train.source import Inputs, Source

MOST_CLASSES = 200
"""Of more, no record should hold a confusion."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Assessed:
    """What a member says of the rows of a split.

    Attributes:
        predicted: what the metric consumes: a class, value or loss per row.
        probabilities: what its probabilities say; None of numbers.
    """

    predicted: np.ndarray
    probabilities: RowProbabilities | None


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
                outputs: Tensor = member.probe.row_losses(z, inputs.targets, inputs.offsets)
            else:
                outputs = member.probe.predict(z, inputs.offsets)
            parts[member].append(outputs)
        return [_joined(parts[member]) for member in members]

    def assess(self, members: Sequence[Member], *, keep: bool) -> list[Assessed]:
        """Return what `predict` does of each member, and what its probabilities say.

        They say nothing of numbers, nor of classes that are scored by their losses alone.

        Args:
            members: in evaluation mode.
            keep: keep the probabilities of every row.
        """
        parts: dict[Member, list[Tensor]] = {member: [] for member in members}
        blocks: dict[Member, list[Block]] = {member: [] for member in members}
        for member, z, inputs in self.visit(members):
            predicted, block = self._assess_block(member, z, inputs, keep=keep)
            parts[member].append(predicted)
            blocks[member] += [] if block is None else [block]
        return [
            Assessed(
                predicted=_joined(parts[member]),
                probabilities=RowProbabilities.joined(blocks[member]) if blocks[member] else None,
            )
            for member in members
        ]

    @torch.no_grad()
    def _assess_block(
        self, member: Member, z: HeadInput, inputs: Inputs, *, keep: bool
    ) -> tuple[Tensor, Block | None]:
        probe, targets, offsets = member.probe, inputs.targets, inputs.offsets
        decoder = probe.decoder
        if self.metric.consumes != "losses":
            logits = probe.evaluated(z)
            predicted = decoder.predict(logits, offsets)
            if self.metric.consumes == "values":
                return predicted, None
            block = assess(decoder, logits, targets, offsets, predicted=predicted, kept=keep)
            return predicted, block
        logits = probe.logits(z)
        losses = decoder.row_losses(logits, targets, offsets)
        if len(self.view.labels):
            return losses, None
        return losses, assess(decoder, logits, targets, offsets, predicted=None, kept=keep)

    def scores(self, assessed: Assessed) -> dict[str, float]:
        """Return loss, calibration error and Brier score, as far as they are defined."""
        if self.metric.consumes == "values":
            (error,) = SquaredError(self.scorer.gold).score(assessed.predicted).values()
            return {"loss": error}
        if assessed.probabilities is None:
            return {}
        rows, gold = assessed.probabilities.scores, LossGold(len(self.view))
        return {
            name: score
            for metric in OF_PROBABILITIES
            for name, score in metric(gold).score(rows).items()
        }

    def visit(self, members: Sequence[Member]) -> Iterator[tuple[Member, HeadInput, Inputs]]:
        """Yield each block of rows for each member, as it reads them and as they came."""
        for reads, source in self.sources.items():
            chosen = [member for member in members if member.spec.head.reads == reads]
            for inputs in source.blocks() if chosen else ():
                for member in chosen:
                    yield member, inputs.of(member.normalization, member.spec.layers), inputs


def _joined(parts: Sequence[Tensor]) -> np.ndarray:
    """Return what was found of every block, numbers in float64."""
    values = torch.cat(list(parts)).cpu()
    return (values.double() if values.is_floating_point() else values).numpy()


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
