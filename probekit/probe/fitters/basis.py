"""Rows standardised and turned into the basis of their principal components.

L2 does not change under a rotation, and in this basis the covariance is diagonal, so that a
Hessian is nearly a Kronecker product that can be inverted at once (`KroneckerInverse`).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

MOST_ROTATED = 4096
"""Width up to which rows are rotated; beyond, eigenvectors cost more than they save."""

_ROUNDING = 8
"""A channel that deviates by less than this times the rounding of its mean is constant."""


@dataclass(frozen=True, eq=False)
class Scale:
    """What standardises rows of width w: (h - mean) / deviation, channel by channel.

    Rows of several layers may have a mean for each, of a shape that broadcasts to theirs.
    """

    mean: Float64[Tensor, "*layers w"]
    deviation: Float64[Tensor, " w"]

    @classmethod
    def of(
        cls,
        mean: Float64[Tensor, " w"],
        deviation: Float64[Tensor, " w"],
        dtype: torch.dtype = torch.float32,
    ) -> "Scale":
        """Return the scale of some moments; a constant channel is divided by 1.

        Args:
            mean: of each channel.
            deviation: of each channel.
            dtype: of the rows, by which their means are rounded.
        """
        varies = deviation > _ROUNDING * torch.finfo(dtype).eps * mean.abs()
        varies &= deviation > torch.finfo(torch.float32).tiny
        return cls(mean, torch.where(varies, deviation, 1.0))

    def apply(self, rows: Float[Tensor, "*n w"]) -> Float[Tensor, "*n w"]:
        """Return standardised rows in float32."""
        large = bool((self.mean.abs() > 1e3 * self.deviation).any())
        shifted = rows.double() - self.mean if large else rows - self.mean.float()
        return (shifted / self.deviation.to(shifted.dtype)).float()


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

    def apply(self, rows: Float[Tensor, "*n w"]) -> Float[Tensor, "*n r"]:
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


class BasisBuilder:
    """Finds the basis of rows that come in blocks, once.

    Attributes:
        reads: whether it needs the rows at all: very wide ones stay as they are.
    """

    def __init__(self, scale: Scale, n_rows: int) -> None:
        """Start without rows.

        Args:
            scale: what standardises them.
            n_rows: how many will come.
        """
        self._scale, self._n_rows = scale, n_rows
        width = len(scale.mean)
        self._short = n_rows < width  # rows span less than the space: their own products tell all
        self.reads = min(width, n_rows) <= MOST_ROTATED
        self._rows: list[Tensor] = []
        self._gram = scale.mean.new_zeros(0 if self._short or not self.reads else width, width)

    def add(self, rows: Float[Tensor, "n w"]) -> None:
        """Add some rows, as they are."""
        z = self._scale.apply(rows)
        if self._short:
            self._rows.append(z)
        else:
            self._gram += z.t() @ z

    def finish(self) -> Basis:
        """Return the basis."""
        if not self.reads:
            varies = self._scale.deviation != 1.0
            return Basis(self._scale, None, varies.double())
        if not self._short:
            spectrum, rotation = torch.linalg.eigh(self._gram / self._n_rows)
            return Basis(self._scale, rotation, spectrum.clamp(min=0))
        # Fewer rows than channels: Z Z' is the smaller matrix, with the same eigenvalues as Z'Z.
        # With Z Z' u = n s u the component is Z'u / sqrt(n s), of length 1; there are as many of
        # them as eigenvalues above rounding, and the rows lie in their span.
        z = torch.cat(self._rows).double()
        spectrum, left = torch.linalg.eigh(z @ z.t() / self._n_rows)
        positive = spectrum > 1e-10 * spectrum[-1].clamp(min=1e-300)
        spectrum, left = spectrum[positive], left[:, positive]
        rotation = z.t() @ (left / (self._n_rows * spectrum).sqrt())
        return Basis(self._scale, rotation, spectrum)
