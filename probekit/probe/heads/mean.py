"""The plain average of the layers."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.base.tensors import full
from probekit.probe.heads.contract import HeadSpec, LayerWeights, RowHead, Trains
from probekit.probe.heads.sums import mapped, static_sum


@dataclass(frozen=True, kw_only=True)
class Mean(HeadSpec):
    """h = the average of z_i; no parameters."""

    name: ClassVar[str] = "mean"
    default_layers: ClassVar[str] = "1:"
    learning_rate: ClassVar[float] = 1e-2
    trains: ClassVar[Trains] = "nothing"
    source: ClassVar[str] = 'DWAtt, Table 2 "Average"; P-32, eq. 2'
    summary: ClassVar[str] = "the average of all layers"
    formula: ClassVar[str] = "1/L sum_i z_i"

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; it has no parameters and draws nothing."""
        return MeanHead(layers, dim)


class MeanHead(RowHead):
    """Module of `Mean`."""

    additive = True
    linear = True

    def fuse(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows width"]:
        """Return the average over the layers, summed in float32."""
        z = full(z)
        return static_sum(z.new_full((len(self.layers),), 1 / len(self.layers)), z)

    def parts(
        self, z: Float[Tensor, "layers rows dim"], weight: Float[Tensor, "outputs width"] | None
    ) -> Float[Tensor, "layers rows outputs"]:
        """Return z_i / L."""
        return mapped(z, weight) / len(self.layers)

    def weigh(self, z: Float[Tensor, "layers rows dim"] | None) -> LayerWeights:
        """Return the same weight for every layer."""
        return LayerWeights.even(self.layers)
