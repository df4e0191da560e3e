"""Scalar mix: ELMo's softmax weights over the layers, times a learned scale."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from probekit.probe.heads.contract import HeadSpec, LayerWeights, RowHead, Trains
from probekit.probe.heads.sums import mapped, static_sum
from probekit.probe.model_parts import Groups, divide


@dataclass(frozen=True, kw_only=True)
class ScalarMix(HeadSpec):
    """h = gamma sum_i softmax(s)_i z_i; s starts at 0 and gamma at 1. Layer 0 takes part."""

    name: ClassVar[str] = "scalar-mix"
    default_layers: ClassVar[str] = "all"
    learning_rate: ClassVar[float] = 1e-2
    group_rates: ClassVar[Mapping[str, float | None]] = {"mixing": 0.2}
    trains: ClassVar[Trains] = "mixture"
    source: ClassVar[str] = 'attention fusion, section 3.3 "linear-fusion"; ELMo, eq. 1'
    summary: ClassVar[str] = "softmax weights times a learned scale"
    formula: ClassVar[str] = "gamma sum_i softmax(s)_i z_i"

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; s starts at 0 and gamma at 1, nothing is drawn."""
        return ScalarMixHead(layers, dim)


class ScalarMixHead(RowHead):
    """Module of `ScalarMix`."""

    additive = True
    linear = True

    def __init__(self, layers: tuple[int, ...], dim: int) -> None:
        """Create s, one scalar per layer, and gamma."""
        super().__init__(layers, dim)
        self.s = nn.Parameter(torch.zeros(len(layers)))
        self.gamma = nn.Parameter(torch.ones(()))

    def fuse(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows width"]:
        """Return the scaled weighted sum of the layers."""
        return static_sum(self.gamma * self.s.softmax(0), z)

    def parts(
        self, z: Float[Tensor, "layers rows dim"], weight: Float[Tensor, "outputs width"] | None
    ) -> Float[Tensor, "layers rows outputs"]:
        """Return gamma softmax(s)_i z_i."""
        return (self.gamma * self.s.softmax(0)).view(-1, 1, 1) * mapped(z, weight)

    def weigh(self, z: Float[Tensor, "layers rows dim"] | None) -> LayerWeights:
        """Return softmax(s) without gamma, and s as the raw weights."""
        raw = self.s.detach().clone()
        return LayerWeights(self.layers, raw.softmax(0), raw)

    @torch.no_grad()
    def load_mixture(self, values: Float[Tensor, " values"]) -> None:
        """Take s; gamma is 1, where a solver holds it."""
        self.s.copy_(values)
        self.gamma.fill_(1.0)

    def parameter_groups(self) -> Groups:
        """Return s and gamma as ``mixing``."""
        return divide(self, mixing=(self.s, self.gamma))
