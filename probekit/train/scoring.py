"""Score many members on one split in one pass: each row is read and normalised once for all."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from probekit.base.machine.sending import send
from probekit.features import FeatureView
from probekit.metrics import AnyGold, Gold, LossGold, Metric, ValueGold
from probekit.probe.heads import HeadInput, LayerWeights
from probekit.probe.heads.contract import Reads
from probekit.train.contributions import Contributions
from probekit.train.member import Member
from probekit.train.source import Source, targets_of

Predictions = list[np.ndarray]


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

    def predict(self, members: Sequence[Member]) -> Predictions:
        """Return what the metric consumes of each member: a class, value or loss per row."""
        parts: dict[Member, list[Tensor]] = {member: [] for member in members}
        for member, z, targets, offsets in self._visit(members):
            if self.metric.consumes == "losses":
                found: Tensor = member.probe.row_losses(z, targets, offsets)
            else:
                found = member.probe.predict(z, offsets)
            parts[member].append(found)
        return [_numbers(torch.cat(parts[member])) for member in members]

    def weigh(self, members: Sequence[Member]) -> list[LayerWeights]:
        """Return each member's layer weights, one vector, or one per row where they differ.

        Those of a sum of maps (``concat``) are what its layers contribute: see `Contributions`.
        """
        parts: dict[Member, list[LayerWeights]] = {member: [] for member in members}
        sums = {member: Contributions(member.probe) for member in members if _is_sum(member)}
        read = [one for one in members if one in sums or one.probe.head.per_row]
        for member, z, _, _ in self._visit(read):
            if member not in sums:
                parts[member].append(member.weigh(z))
            elif isinstance(z, Tensor):
                sums[member].add(z)
        for member in members:
            if member in sums:
                parts[member].append(sums[member].weights())
            elif not member.probe.head.per_row:
                parts[member].append(member.weigh(None))
        return [LayerWeights.concatenate(parts[member]) for member in members]

    def _visit(
        self, members: Sequence[Member]
    ) -> Iterator[tuple[Member, HeadInput, Tensor, Tensor]]:
        """Yield each block of rows for each member, with targets and the bounds of sentences."""
        for reads, source in self.sources.items():
            chosen = [member for member in members if member.spec.head.reads == reads]
            if not chosen:
                continue
            device, bounds = source.rows.device, self.view.offsets
            targets = targets_of(self.view, device)
            for inputs, examples in source.blocks():
                own = bounds[examples[0] : examples[-1] + 2]
                offsets = send(torch.from_numpy(own - own[0]), device)
                for member in chosen:
                    z = inputs.of(member.treatment, member.spec.layers)
                    yield member, z, targets[own[0] : own[-1]], offsets


def _is_sum(member: Member) -> bool:
    """Say whether a member's h is a sum of maps of its layers."""
    return member.probe.head.layer_maps() is not None


def _numbers(found: Tensor) -> np.ndarray:
    return (found.double() if found.is_floating_point() else found).cpu().numpy()


def gold_of(view: FeatureView, metric: type[Metric]) -> AnyGold:
    """Return a view's targets as a metric wants them."""
    if metric.consumes == "losses":
        return LossGold(len(view))
    if metric.consumes == "values":
        return ValueGold(view.targets, view.offsets)
    return Gold(ids=view.targets, offsets=view.offsets, names=view.all_names)
