"""Rows standardised and turned into the basis of their principal components.

L2 does not change under a rotation, and in this basis the covariance is diagonal, so that a
Hessian is nearly a Kronecker product that can be inverted at once (`KroneckerInverse`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

MOST_ROTATED = 4096
"""Width up to which rows are rotated; beyond, eigenvectors cost more than they save."""

_ROUNDING = 2.0**-20
"""A channel whose deviation is less than this share of its mean is constant but for rounding."""


@dataclass(frozen=True, eq=False)
class Scale:
    """What standardises rows of width w: (h - mean) / deviation, channel by channel."""

    mean: Float64[Tensor, " w"]
    deviation: Float64[Tensor, " w"]

    @classmethod
    def of(cls, mean: Float64[Tensor, " w"], deviation: Float64[Tensor, " w"]) -> "Scale":
        """Return the scale of some moments; a constant channel is divided by 1."""
        varies = deviation > _ROUNDING * mean.abs()
        varies &= deviation > torch.finfo(torch.float32).tiny
        return cls(mean, torch.where(varies, deviation, 1.0))

    def apply(self, rows: Float[Tensor, "n w"]) -> Float[Tensor, "n w"]:
        """Return standardised rows in float32."""
        shifted = rows.double() - self.mean if self._needs_double else rows - self.mean.float()
        return (shifted / self.deviation.to(shifted.dtype)).float()

    @property
    def _needs_double(self) -> bool:
        return bool((self.mean.abs() > 1e3 * self.deviation).any())


@dataclass(frozen=True, eq=False)
class Basis:
    """Principal components of standardised rows.

    Attributes:
        scale: what standardises rows.
        rotation: components as columns, orthonormal; None leaves rows as they are.
        spectrum: mean square of each component.
    """

    scale: Scale
    rotation: Float64[Tensor, "w r"] | None
    spectrum: Float64[Tensor, " r"]

    def apply(self, rows: Float[Tensor, "n w"]) -> Float[Tensor, "n r"]:
        """Return rows standardised and rotated, in float32."""
        z = self.scale.apply(rows)
        return z if self.rotation is None else z @ self.rotation.float()

    def unrotated(self, weight: Float64[Tensor, "*k r"]) -> Float64[Tensor, "*k w"]:
        """Return weights of standardised channels, given those of components."""
        return weight if self.rotation is None else weight @ self.rotation.t()

    def folded(
        self, weight: Float64[Tensor, "*k r"], bias: Float64[Tensor, " *k"]
    ) -> tuple[Float64[Tensor, "*k w"], Float64[Tensor, " *k"]]:
        """Return weights and biases of rows as they came, given those of components."""
        raw = self.unrotated(weight) / self.scale.deviation
        return raw, bias - raw @ self.scale.mean


def find_basis(scale: Scale, rows: Iterable[Float[Tensor, "n w"]], n_rows: int) -> Basis:
    """Return the basis of some rows, which are read once, block by block.

    Args:
        scale: what standardises them.
        rows: blocks of them, as they are.
        n_rows: how many there are.
    """
    width = len(scale.mean)
    device = scale.mean.device
    if width > MOST_ROTATED and n_rows > MOST_ROTATED:
        varies = scale.deviation != 1.0
        return Basis(scale, None, varies.double())
    if n_rows < width:  # the rows span less than the space: their own products tell all
        z = torch.cat([scale.apply(block) for block in rows]).double()
        spectrum, left = torch.linalg.eigh(z @ z.t() / n_rows)
        kept = spectrum > 1e-12 * spectrum[-1].clamp(min=1e-300)
        spectrum, left = spectrum[kept], left[:, kept]
        rotation = z.t() @ (left / (n_rows * spectrum).sqrt())
        return Basis(scale, rotation, spectrum)
    gram = torch.zeros(width, width, dtype=torch.float64, device=device)
    for block in rows:
        z = scale.apply(block)
        gram += (z.t() @ z).double()
    spectrum, rotation = torch.linalg.eigh(gram / n_rows)
    return Basis(scale, rotation, spectrum.clamp(min=0))


class KroneckerInverse:
    """Inverse of A x diag(spectrum) + L2, A the mean curvature by the logits of each problem.

    It is the Hessian where every row has the same curvature, as at the start of a fit.
    """

    def __init__(
        self,
        spectrum: Float64[Tensor, " r"],
        l2: Float64[Tensor, " problems"],
        n_logits: int,
        extra: Float64[Tensor, "problems extra"],
    ) -> None:
        """Start with the identity for A.

        Args:
            spectrum: mean square of each column of the rows.
            l2: strength of each problem; the bias has none.
            n_logits: K.
            extra: diagonal of the Hessian for values beside weights and biases.
        """
        one = spectrum.new_ones(1)
        self._spectrum = torch.cat([spectrum, one])
        self._l2 = torch.cat([l2.unsqueeze(1).expand(-1, len(spectrum)), 0 * l2.unsqueeze(1)], 1)
        eye = torch.eye(n_logits, dtype=torch.float64, device=spectrum.device)
        self._values = torch.ones(len(l2), n_logits, dtype=torch.float64, device=spectrum.device)
        self._vectors = eye.expand(len(l2), -1, -1).clone()
        self._extra = extra

    def update(self, which: Tensor, points: Tensor, curvature: Tensor | None) -> None:
        """Take in A of some problems."""
        if curvature is None or not len(which):
            return
        values, vectors = torch.linalg.eigh(curvature)
        floor = 1e-9 * values[:, -1:].clamp(min=1e-9)
        self._values[which] = torch.where(values > floor, values, 0.0)
        self._vectors[which] = vectors

    def apply(
        self, which: Int64[Tensor, " some"], gradient: Float64[Tensor, "some values"]
    ) -> Float64[Tensor, "some values"]:
        """Return the inverse times the gradients, whose weights have a bias behind each logit's."""
        n_logits, width = self._values.shape[1], len(self._spectrum)
        own = gradient[:, : n_logits * width].view(-1, n_logits, width)
        vectors = self._vectors[which]
        turned = vectors.transpose(1, 2) @ own
        scale = self._values[which].unsqueeze(2) * self._spectrum + self._l2[which].unsqueeze(1)
        turned = torch.where(scale > 0, turned / scale.clamp(min=1e-300), 0.0)
        out = (vectors @ turned).flatten(1)
        return torch.cat([out, gradient[:, n_logits * width :] / self._extra[which]], 1)
