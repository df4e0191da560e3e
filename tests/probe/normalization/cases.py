"""What the tests of normalisations fit, by name."""

from torch import Tensor

from probekit.probe.normalization import NORMALIZATIONS, Normalization
from probekit.testing import normalization_checks as checks


def fit(name: str, z: Tensor | None = None, normed_layer: int | None = 3) -> Normalization:
    return checks.fit(NORMALIZATIONS[name], z, normed_layer)
