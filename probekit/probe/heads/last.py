"""The last layer alone: the baseline that every fusion head has to beat."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.base.tensors import full
from probekit.probe.heads.contract import HeadSpec, LayerWeights, RowHead, Trains
from probekit.probe.heads.sums import mapped


@dataclass(frozen=True, kw_only=True)
class Last(HeadSpec):
    """h = z_L, where L is the last layer of the head's own choice; no parameters."""

    name: ClassVar[str] = "last"
    default_layers: ClassVar[str] = "-1"
    learning_rate: ClassVar[float] = 1e-2
    trains: ClassVar[Trains] = "nothing"
    source: ClassVar[str] = "baseline of all three papers"
    summary: ClassVar[str] = "the last layer alone"
    formula: ClassVar[str] = "z_L"

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; it has no parameters and draws nothing."""
        return LastHead(layers, dim)


class LastHead(RowHead):
    """Module of `Last`."""

    additive = True
    linear = True

    def fuse(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows width"]:
        """Return the rows of the last layer."""
        return full(z[-1])

    def parts(
        self, z: Float[Tensor, "layers rows dim"], weight: Float[Tensor, "outputs width"] | None
    ) -> Float[Tensor, "layers rows outputs"]:
        """Return z_L for the last layer and 0 for the others."""
        last = mapped(z[-1:], weight)
        return torch.cat([last.new_zeros(len(z) - 1, *last.shape[1:]), last])

    def weigh(self, z: Float[Tensor, "layers rows dim"] | None) -> LayerWeights:
        """Return 1 for the last layer and 0 for the others."""
        weights = torch.zeros(len(self.layers))
        weights[-1] = 1.0
        return LayerWeights(self.layers, weights)
