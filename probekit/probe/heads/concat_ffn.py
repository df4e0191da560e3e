"""Concat for a feed-forward decoder: all layers of a row, one after the other."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.base.numbers.precision import full, no_autocast
from probekit.probe.heads.contract import HeadInput, HeadSpec, LayerWeights, RowHead, Trains


@dataclass(frozen=True, kw_only=True)
class ConcatFFN(HeadSpec):
    """h = [z_1; ...; z_L], of width L x d; what is learned lies in the decoder's first layer.

    At 24 layers of width 1024 and the paper's decoder, that layer has 6.3 M parameters.
    """

    name: ClassVar[str] = "concat-ffn"
    default_layers: ClassVar[str] = "1:"
    learning_rate: ClassVar[float] = 1e-2
    trains: ClassVar[Trains] = "nothing"
    source: ClassVar[str] = 'attention fusion, section 3.3 "concat-fusion" (Cao et al., 2020)'
    summary: ClassVar[str] = "all layers side by side, straight into the decoder"
    formula: ClassVar[str] = "[z_1; ...; z_L]"
    default_decoder: ClassVar[str | None] = "mlp"

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; it has no parameters and draws nothing."""
        return ConcatFFNHead(layers, dim)


class ConcatFFNHead(RowHead):
    """Module of `ConcatFFN`."""

    additive = True
    linear = True

    def __init__(self, layers: tuple[int, ...], dim: int) -> None:
        """Widen h to all layers."""
        super().__init__(layers, dim)
        self.width = len(layers) * dim

    def fuse(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows width"]:
        """Return the layers of each row side by side, the lowest first."""
        return full(z.transpose(0, 1).flatten(1))

    def project(
        self, z: HeadInput, weight: Float[Tensor, "classes width"], bias: Float[Tensor, " classes"]
    ) -> Float[Tensor, "rows classes"]:
        """Return ``weight h + bias`` layer by layer, without laying the layers side by side."""
        z = self._layer_major(z)
        with no_autocast(z):
            return bias + self.parts(full(z), weight).sum(0)

    def parts(
        self, z: Float[Tensor, "layers rows dim"], weight: Float[Tensor, "outputs width"] | None
    ) -> Float[Tensor, "layers rows outputs"]:
        """Return each layer in its own place, and 0 in those of the others."""
        if weight is None:
            weight = torch.eye(self.width, dtype=z.dtype, device=z.device)
        by_layer = weight.reshape(-1, len(self.layers), self.dim).permute(1, 2, 0)
        return torch.bmm(z, by_layer)

    def weigh(self, z: Float[Tensor, "layers rows dim"] | None) -> LayerWeights:
        """Return the same weight for every layer: any preference is the decoder's, not h's."""
        return LayerWeights.even(self.layers)
