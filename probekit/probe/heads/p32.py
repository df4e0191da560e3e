"""P-32: a learned softmax weight per layer."""

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
class P32(HeadSpec):
    """h = sum_i softmax(lambda)_i z_i; lambda starts at 0, so training starts from the average."""

    name: ClassVar[str] = "p32"
    default_layers: ClassVar[str] = "1:"
    learning_rate: ClassVar[float] = 1e-2
    group_rates: ClassVar[Mapping[str, float | None]] = {"mixing": 0.2}
    trains: ClassVar[Trains] = "mixture"
    source: ClassVar[str] = "P-32, eq. 1"
    summary: ClassVar[str] = "one learned softmax weight per layer"
    formula: ClassVar[str] = "sum_i softmax(lambda)_i z_i"

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; lambda starts at 0, nothing is drawn."""
        return P32Head(layers, dim)


class P32Head(RowHead):
    """Module of `P32`."""

    additive = True
    linear = True

    def __init__(self, layers: tuple[int, ...], dim: int) -> None:
        """Create lambda, one scalar per layer."""
        super().__init__(layers, dim)
        self.lambda_ = nn.Parameter(torch.zeros(len(layers)))

    def fuse(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows width"]:
        """Return the weighted sum of the layers."""
        return static_sum(self.lambda_.softmax(0), z)

    def parts(
        self, z: Float[Tensor, "layers rows dim"], weight: Float[Tensor, "outputs width"] | None
    ) -> Float[Tensor, "layers rows outputs"]:
        """Return softmax(lambda)_i z_i."""
        return self.lambda_.softmax(0).view(-1, 1, 1) * mapped(z, weight)

    def weigh(self, z: Float[Tensor, "layers rows dim"] | None) -> LayerWeights:
        """Return softmax(lambda), and lambda as the raw weights (P-32, Figure 2)."""
        raw = self.lambda_.detach().clone()
        return LayerWeights(self.layers, raw.softmax(0), raw)

    @torch.no_grad()
    def load_mixture(self, values: Float[Tensor, " values"]) -> None:
        """Take lambda."""
        self.lambda_.copy_(values)

    def parameter_groups(self) -> Groups:
        """Return lambda as ``mixing``."""
        return divide(self, mixing=(self.lambda_,))
