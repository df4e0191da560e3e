"""Heads that concatenate layers: as they are, and through a feed-forward network each."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.base.numbers import linear_uniform
from probekit.base.tensors import full, no_autocast, operand
from probekit.probe.heads.contract import HeadInput, HeadSpec, LayerWeights, RowHead, Trains


@dataclass(frozen=True, kw_only=True)
class Concat(HeadSpec):
    """h = sum_i W_i z_i + b.

    The same as one linear layer over the concatenated layers, and initialised as that layer
    (fan-in: layers x d).
    """

    name: ClassVar[str] = "concat"
    default_layers: ClassVar[str] = "1:"
    learning_rate: ClassVar[float] = 1e-3
    source: ClassVar[str] = "DWAtt, eq. 2"
    summary: ClassVar[str] = "a learned linear map per layer, summed"
    formula: ClassVar[str] = "sum_i W_i z_i + b"

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; W, then b, are drawn as ``torch.nn.Linear`` would."""
        return ConcatHead(layers, dim, generator)


class ConcatHead(RowHead):
    """Module of `Concat`; ``weight[i]`` has shape (in, out), the transpose of W_i."""

    additive = True
    linear = True
    weighed_by_shares = True

    def __init__(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> None:
        """Draw the stacked maps and the bias."""
        super().__init__(layers, dim)
        fan_in = len(layers) * dim
        self.weight = linear_uniform(len(layers), dim, dim, fan_in=fan_in, generator=generator)
        self.bias = linear_uniform(dim, fan_in=fan_in, generator=generator)

    def fuse(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows width"]:
        """Return the sum of the mapped layers.

        One product over the flattened layers: it rounds once, after a float32 sum over all of
        them. Its time is that of its arithmetic (``benchmarks/head_step.py``).
        """
        n_layers, rows, dim = z.shape
        flat = operand(z).transpose(0, 1).reshape(rows, n_layers * dim)
        return full(torch.addmm(self.bias, flat, self.weight.view(n_layers * dim, dim)))

    def project(
        self, z: HeadInput, weight: Float[Tensor, "classes width"], bias: Float[Tensor, " classes"]
    ) -> Float[Tensor, "rows classes"]:
        """Return ``weight h + bias`` by one (d, classes) map per layer instead of (d, d).

        That is d / classes times less arithmetic than one product after the other.
        """
        z = self._layer_major(z)
        with no_autocast(z):
            shift = torch.addmv(bias, weight, self.bias)
            return shift + self.parts(full(z), weight).sum(0)

    def parts(
        self, z: Float[Tensor, "layers rows dim"], weight: Float[Tensor, "outputs width"] | None
    ) -> Float[Tensor, "layers rows outputs"]:
        """Return W_i z_i: the maps come first, so that a product is as wide as ``weight h``."""
        return torch.bmm(z, self.weight if weight is None else self.weight @ weight.t())

    def weigh(self, z: Float[Tensor, "layers rows dim"] | None) -> LayerWeights:
        """Return each layer's share of the norm, ||W_i||_F / sum_j ||W_j||_F.

        That is all that can be said without rows. What a trained probe's layers contribute to its
        logits is in its record (``train.contributions``).
        """
        norms = torch.linalg.vector_norm(self.weight.detach(), dim=(1, 2))
        return LayerWeights(self.layers, norms / norms.sum())


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
