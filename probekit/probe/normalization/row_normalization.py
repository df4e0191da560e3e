"""LayerNorm of each row of each layer."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from probekit.base.numbers.precision import full
from probekit.probe.normalization.contract import Normalization


class RowNormalization(Normalization):
    """LayerNorm of each row of each layer, without parameters (eps 1e-5)."""

    name = "layernorm"

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return rows with mean 0 and variance 1."""
        z = full(z.transpose(0, 1))
        return functional.layer_norm(z, z.shape[-1:]).transpose(0, 1)
