"""What the layers of trained members count: all that one pass over dev says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from probekit.probe.heads.contract import HeadInput, LayerWeights
from probekit.train.ablation import Ablation, MeanRows
from probekit.train.contributions import Contributions
from probekit.train.member import Member
from probekit.train.scoring import ScoredSplit
from probekit.train.source import Inputs


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """What the layers of a member count on dev.

    Attributes:
        weights: weight of each layer, one vector, or one per row where they differ. Those of a sum
            of learned maps (``concat``) are the shares, or where the decoder is no affine map (an
            MLP, say) the shares in h itself.
        initial: mean weight of each layer before anything was trained (of a solved head: at the
            first of its starts); empty for a head that gives all rows the same weights.
        shares: share of each layer in the variance of the logits (`Contributions`); empty where the
            logits are no sum over layers, or do not vary.
        ablation: loss without each layer less that with all (`Ablation`); None where that was not
            asked for.
    """

    weights: LayerWeights
    initial: Mapping[int, float] = field(default_factory=dict)
    shares: Mapping[int, float] = field(default_factory=dict)
    ablation: Mapping[int, float] | None = None


def attribute(
    dev: ScoredSplit, members: Sequence[Member], means: MeanRows | None = None
) -> list[Attribution]:
    """Return what the layers of members count on dev.

    Args:
        dev: the rows.
        members: trained, and evaluating.
        means: what stands for the rows of a layer that is left out; members that are not among
            these leave out none.
    """
    means = means or {}
    found = {member: _Measures(member, means.get(member)) for member in members}
    with torch.no_grad():
        for member, z, inputs in dev.visit([one for one in members if found[one].need_rows]):
            found[member].add(z, inputs)
        return [found[member].result() for member in members]


class _Measures:
    """What is measured of one member, as far as it has it."""

    def __init__(self, member: Member, means: Tensor | None) -> None:
        """Choose the measures."""
        self._probe, self._head = member.probe, member.probe.head
        self._logits = self._probe.decoder.logit_weight
        self._fresh = None
        if self._head.per_row:
            self._fresh = member.fresh_head().to(member.dropout.device).eval()
        self._weights: list[LayerWeights] = []
        self._initial: list[LayerWeights] = []
        self._sum: Contributions | None = None
        in_sum = self._logits is not None or self._head.weighed_by_shares
        if self._head.additive and in_sum and len(self._head.layers) > 1:
            self._sum = Contributions(self._head, self._logits)
        self._ablation = None if means is None else Ablation(self._probe, means)

    @property
    def need_rows(self) -> bool:
        """Whether something is measured that is not known without rows."""
        return any(one is not None for one in (self._fresh, self._sum, self._ablation))

    def add(self, z: HeadInput, inputs: Inputs) -> None:
        """Add a block of rows."""
        if self._fresh is not None:
            self._weights.append(self._head.layer_weights(z))
            self._initial.append(self._fresh.layer_weights(z))
        if self._sum is not None and isinstance(z, Tensor):
            self._sum.add(z)
        if self._ablation is not None and isinstance(z, Tensor):
            self._ablation.add(z, inputs)

    def result(self) -> Attribution:
        """Return what was measured."""
        return Attribution(
            weights=self._found_weights(),
            initial=LayerWeights.concatenate(self._initial).by_layer() if self._fresh else {},
            shares=self._found_shares(),
            ablation=None if self._ablation is None else self._ablation.result(),
        )

    def _found_weights(self) -> LayerWeights:
        if self._fresh is not None:
            return LayerWeights.concatenate(self._weights)
        if self._sum is not None and self._head.weighed_by_shares:
            return self._sum.weights()
        return self._head.layer_weights(None)

    def _found_shares(self) -> dict[int, float]:
        """Return the shares in the logits; of a single layer it is all, without a look at rows."""
        if not self._head.additive or self._logits is None:
            return {}
        return {self._head.layers[0]: 1.0} if self._sum is None else self._sum.shares()
