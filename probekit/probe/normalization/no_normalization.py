"""No normalisation: what published runs use."""

from jaxtyping import Float
from torch import Tensor

from probekit.probe.normalization.contract import Normalization


class NoNormalization(Normalization):
    """Rows as they are stored, dtype included.

    Row norms of a decoder run from 3 to 680 over its layers, so conclusions about decoders are
    shown raw and standardised.
    """

    name = "none"

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return z itself."""
        return z
