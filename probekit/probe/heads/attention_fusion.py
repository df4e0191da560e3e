"""Attention fusion: one learned query attends over the layers of each word."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from probekit.probe.heads.contract import HeadSpec, LayerWeights, RowHead, Trains
from probekit.probe.heads.sums import mapped, row_scores, row_sum
from probekit.probe.model_parts import Groups, divide


@dataclass(frozen=True, kw_only=True)
class AttentionFusion(HeadSpec):
    """h = sum_i softmax_i(q . z_i) z_i, with one learned q per task.

    The paper leaves the start of q open. It starts at 0 here: every layer then weighs the same, as
    in `P32`, whatever the scale of the states; a random q would let a decoder's massive
    activations (row norms up to 30,000) saturate the softmax before the first step.
    """

    name: ClassVar[str] = "attention-fusion"
    default_layers: ClassVar[str] = "all"
    learning_rate: ClassVar[float] = 1e-2
    group_rates: ClassVar[Mapping[str, float | None]] = {"mixing": None}
    trains: ClassVar[Trains] = "mixture"
    source: ClassVar[str] = "attention fusion, eq. 1-2"
    summary: ClassVar[str] = "one learned query attends over the layers of each word"
    formula: ClassVar[str] = "sum_i softmax_i(q . z_i) z_i"

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; q starts at 0, nothing is drawn."""
        return AttentionFusionHead(layers, dim)


class AttentionFusionHead(RowHead):
    """Module of `AttentionFusion`."""

    per_row = True
    additive = True

    def __init__(self, layers: tuple[int, ...], dim: int) -> None:
        """Create the query."""
        super().__init__(layers, dim)
        self.q = nn.Parameter(torch.zeros(dim))

    def fuse(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows width"]:
        """Return the sum of the layers, weighted row by row."""
        return row_sum(row_scores(self.q, z).softmax(0), z)

    def parts(
        self, z: Float[Tensor, "layers rows dim"], weight: Float[Tensor, "outputs width"] | None
    ) -> Float[Tensor, "layers rows outputs"]:
        """Return softmax_i(q . z_i) z_i, row by row."""
        return row_scores(self.q, z).softmax(0).unsqueeze(2) * mapped(z, weight)

    def weigh(self, z: Float[Tensor, "layers rows dim"] | None) -> LayerWeights:
        """Return the attention of each row, and its scores as the raw weights."""
        assert z is not None
        raw = row_scores(self.q, z).t()
        return LayerWeights(self.layers, raw.softmax(-1), raw)

    @torch.no_grad()
    def load_mixture(self, values: Float[Tensor, " values"]) -> None:
        """Take q."""
        self.q.copy_(values)

    def parameter_groups(self) -> Groups:
        """Return q as ``mixing``."""
        return divide(self, mixing=(self.q,))
