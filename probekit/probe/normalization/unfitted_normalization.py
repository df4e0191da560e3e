"""Normalisations that learn nothing: none, which published runs use, and LayerNorm of each row."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from probekit.base.numbers.precision import full
from probekit.probe.normalization.contract import Normalization


class NoNormalization(Normalization):
    """Rows as they are stored, dtype included.

    Row norms of a decoder run from 3 to 680 over its layers, so conclusions about decoders are
    shown raw and standardised.
    """

    name = "none"

    @property
    def affine(self) -> tuple[Tensor, Tensor]:
        """Scale 1 and shift 0."""
        return torch.ones(1, 1), torch.zeros(1, 1)

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return z itself."""
        return z


class RowNormalization(Normalization):
    """LayerNorm of each row of each layer, without parameters (eps 1e-5)."""

    name = "layernorm"

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return rows with mean 0 and variance 1."""
        z = full(z.transpose(0, 1))
        return functional.layer_norm(z, z.shape[-1:]).transpose(0, 1)
