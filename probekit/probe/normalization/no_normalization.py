"""No normalisation: what published runs use."""

import torch
from jaxtyping import Float
from torch import Tensor

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
