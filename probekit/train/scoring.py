"""Score many members on one split in one pass: each row is read and normalised once for all."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from probekit.features import FeatureView
from probekit.heads import LayerWeights
from probekit.metrics import Gold, Metric, Scorer
from probekit.train.inputs import Inputs
from probekit.train.member import Member
from probekit.train.rows import Rows

Predictions = list[Int64[np.ndarray, " rows"]]


class ScoredSplit:
    """A split whose gold labels were prepared once.

    Attributes:
        rows: its rows, of the union of the members' layers.
        metric: what scores it; its main score has its name.
        scorer: the metric, prepared with its gold labels.
    """

    def __init__(self, rows: Rows, metric: Metric) -> None:
        """Prepare the metric."""
        self.rows = rows
        self.metric = metric
        self.scorer: Scorer = metric.prepare(gold_of(rows.view))

    def predict(self, members: Sequence[Member]) -> Predictions:
        """Return each member's class numbers for all rows, in one pass."""
        parts: list[list[Tensor]] = [[] for _ in members]
        for inputs, offsets in self._blocks():
            for member, found in zip(members, parts, strict=True):
                z = inputs.of(member.treatment, member.spec.layers)
                found.append(member.probe.predict(z, offsets))
        return [torch.cat(found).cpu().numpy() for found in parts]

    def weigh(self, members: Sequence[Member]) -> list[LayerWeights]:
        """Return each member's layer weights, averaged over the rows where they differ by row."""
        parts: list[list[LayerWeights]] = [[] for _ in members]
        for inputs, _ in self._blocks():
            for member, found in zip(members, parts, strict=True):
                if member.probe.head.per_row or not found:
                    found.append(member.weigh(inputs.of(member.treatment, member.spec.layers)))
            if not any(member.probe.head.per_row for member in members):
                break
        return [LayerWeights.concatenate(found) for found in parts]

    def _blocks(self) -> Iterator[tuple[Inputs, Int64[Tensor, " bounds"]]]:
        bounds = self.rows.view.offsets
        for block, z in self.rows.blocks():
            first, last = np.searchsorted(bounds, [block.start, block.stop])
            offsets = torch.from_numpy(bounds[first : last + 1] - block.start)
            yield Inputs(z, self.rows.layers), offsets.to(self.rows.device)


def gold_of(view: FeatureView) -> Gold:
    """Return a view's targets as a metric wants them."""
    return Gold(ids=view.targets, offsets=view.offsets, names=view.all_names)
