"""Rows in their principal components, and a linear layer's approximate inverse Hessian.

L2 does not change under a rotation, and in this basis the covariance is diagonal, so that a
Hessian is nearly a Kronecker product that can be inverted at once (`KroneckerInverse`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.probe.fitters.losses import MOST_CURVED
from probekit.probe.fitters.minimise import Evaluation, Points, Preconditioner, Request, Which
from probekit.probe.normalization.standardization import divisors

_FLOOR = 1e-9
"""Eigenvalues of a curvature below this share of the largest are those of its null space."""

_START, _LEAST, _MOST = 0.1, 1e-8, 1e3
"""The curvature that is assumed along values beside weights and biases at first, and its bounds."""

_FIRST, _LATER = 40, 3
"""Steps after which a problem's blocks are worth their cost, and how many times as many there are
before they are computed again."""

_ROOM = 2**25
"""Values of all blocks that are kept at a time."""

_RIDGE = 1e-5
"""Share of each block's diagonal that is added to it, since its rows are a sample."""


class KroneckerInverse(Preconditioner):
    """Inverse of A x diag(spectrum) + L2, A the mean curvature by the logits of each problem.

    It is the Hessian where every row has the same curvature, as at the start of a fit. Groups of
    values beside weights and biases (a chain's transitions, a mixture) have one curvature each,
    that of the last step along them.
    """

    def __init__(
        self,
        spectrum: Float64[Tensor, " r"],
        l2: Float64[Tensor, " problems"],
        n_logits: int,
        *,
        beside: Sequence[int] = (),
        apart: bool = False,
    ) -> None:
        """Start with the identity for A.

        Args:
            spectrum: mean square of each column of the rows.
            l2: strength of each problem; the bias has none.
            n_logits: K.
            beside: sizes of the groups of values beside weights and biases.
            apart: whether logits are apart, as in `Loss`.
        """
        self._spectrum = torch.cat([spectrum, spectrum.new_ones(1)])
        self._l2 = torch.cat([l2.unsqueeze(1).expand(-1, len(spectrum)), 0 * l2.unsqueeze(1)], 1)
        self._values = l2.new_ones(len(l2), n_logits)
        self._vectors: Tensor | None = None  # of many logits the curvature is a diagonal
        if n_logits <= MOST_CURVED:
            eye = torch.eye(n_logits, dtype=torch.float64, device=spectrum.device)
            self._vectors = eye.expand(len(l2), -1, -1).clone()
        self._beside = list(beside)
        self._own = [l2.new_full((len(l2),), _START) for _ in beside]
        self._last: tuple[Tensor, Tensor] | None = None
        self._n_weights = n_logits * len(self._spectrum)

    def update(self, which: Which, points: Points, evaluation: Evaluation) -> None:
        """Take in A of some problems, and the curvature along the steps to their points."""
        if not len(which):
            return
        if evaluation.curvature is not None:
            if self._vectors is None:
                values = evaluation.curvature
            else:
                values, self._vectors[which] = torch.linalg.eigh(evaluation.curvature)
            floor = _FLOOR * values.amax(1, keepdim=True).clamp(min=_FLOOR)
            self._values[which] = torch.where(values > floor, values, 0.0)
        if self._beside:
            self._measure(which, points, evaluation.gradient)

    def _measure(self, which: Tensor, points: Tensor, gradient: Tensor) -> None:
        """Set the curvature of each group to that of the last step, where it was positive."""
        here = torch.stack([points[:, self._n_weights :], gradient[:, self._n_weights :]])
        if self._last is None:
            self._last = (torch.zeros_like(here[0]), torch.zeros_like(here[0]))
        else:
            parts = zip(*(torch.split(values, self._beside, 1) for values in here), strict=True)
            before = zip(
                *(torch.split(values[which], self._beside, 1) for values in self._last), strict=True
            )
            for scales, (x, g), (x0, g0) in zip(self._own, parts, before, strict=True):
                steps, changes = x - x0, g - g0
                along, length = (steps * changes).sum(1), steps.square().sum(1)
                known = (along > 0) & (length > 0)
                scale = (along / length.clamp(min=1e-300)).clamp(_LEAST, _MOST)
                scales[which] = torch.where(known, scale, scales[which])
        for kept, now in zip(self._last, here, strict=True):
            kept[which] = now

    def reset(self, which: Which) -> None:
        """Return to the first curvature along values beside weights and biases."""
        for scales in self._own:
            scales[which] = _START

    def apply(self, which: Which, gradient: Points) -> Points:
        """Return the inverse times the gradients, whose weights have a bias behind each logit's."""
        # With A = V diag(a) V' the inverse of A x diag(s) + l2 is V (./(a s' + l2)) V': turn the
        # logits, divide each value by its own curvature, turn back. What no row bends (a s = 0,
        # without l2) stays where it is.
        n_logits, width = self._values.shape[1], len(self._spectrum)
        by_logit = gradient[:, : self._n_weights].view(len(which), n_logits, width)
        vectors = None if self._vectors is None else self._vectors[which]
        scale = self._values[which].unsqueeze(2) * self._spectrum + self._l2[which].unsqueeze(1)
        turned = by_logit if vectors is None else vectors.transpose(1, 2) @ by_logit
        turned = torch.where(scale > 0, turned / scale.clamp(min=1e-300), 0.0)
        beside = torch.split(gradient[:, self._n_weights :], self._beside or [0], 1)
        curvatures = self._own or [self._l2[:, 0]]
        others = [
            part / curvature[which].unsqueeze(1)
            for part, curvature in zip(beside, curvatures, strict=True)
        ]
        back = turned if vectors is None else vectors @ turned
        return torch.cat([back.flatten(1), *others], 1)


class BlockInverse(KroneckerInverse):
    """Of problems that take long: the inverse of the Hessian's blocks, one per logit.

    Where strengths are weak, rows bend the loss very unequally, and each logit by rows of its own.
    What couples the logits is left out, save that nothing changes if all of them grow alike, unless
    they are apart.
    """

    def __init__(
        self,
        spectrum: Float64[Tensor, " r"],
        l2: Float64[Tensor, " problems"],
        n_logits: int,
        *,
        beside: Sequence[int] = (),
        apart: bool = False,
    ) -> None:
        """Start without blocks."""
        super().__init__(spectrum, l2, n_logits, beside=beside, apart=apart)
        self._shared = 0.0 if apart or n_logits == 1 else 1.0
        self._steps = torch.zeros_like(l2, dtype=torch.int64)
        self._next = torch.full_like(self._steps, _FIRST)
        self._total = self._values.clone()
        self._blocks: dict[int, Float[Tensor, "logits width width"]] = {}

    def update(self, which: Which, points: Points, evaluation: Evaluation) -> None:
        """Take in how each logit bends the loss."""
        super().update(which, points, evaluation)
        self._steps[which] += 1
        if evaluation.curvature is not None:
            is_full = self._vectors is not None
            self._total[which] = (
                evaluation.curvature.diagonal(0, 1, 2) if is_full else evaluation.curvature
            )

    def wanted(self, which: Which, points: Points) -> Request | None:
        """Return the points of the problems that have taken so long, as many as there is room for.

        Those with the weakest strengths come first; where there is none, problems that have left or
        wait lose theirs.
        """
        due = (self._steps[which] >= self._next[which]).nonzero().squeeze(1).tolist()
        new = [index for index in due if int(which[index]) not in self._blocks]
        new.sort(key=lambda index: float(self._l2[which[index], 0]))
        room = _ROOM // (self._total.shape[1] * len(self._spectrum) ** 2)
        if len(self._blocks) + len(new) > room:
            self._blocks = {n: self._blocks[n] for n in which.tolist() if n in self._blocks}
        chosen = sorted(set(due).difference(new[max(room - len(self._blocks), 0) :]))
        if not chosen:
            return None
        return Request(which[chosen], points[chosen], self._total[which[chosen]])

    def sharpen(self, which: Which, evaluation: Evaluation) -> None:
        """Invert the blocks, in units of their diagonals."""
        assert evaluation.blocks is not None, "asked for blocks"
        for n, blocks in zip(which.tolist(), evaluation.blocks, strict=True):
            self._blocks[n] = blocks
            floor = _FLOOR * float(blocks.diagonal(0, 1, 2).max())
            for block in blocks:
                block.copy_(_inverse(block, self._l2[n].float(), floor))
        self._next[which] = _LATER * self._steps[which]

    def reset(self, which: Which) -> None:
        """Return to the first curvature along values beside weights and biases; drop blocks."""
        super().reset(which)
        for n in which.tolist():
            self._blocks.pop(n, None)

    def apply(self, which: Which, gradient: Points) -> Points:
        """Return the inverse times the gradients."""
        direction = super().apply(which, gradient)
        n_logits, width = self._total.shape[1], len(self._spectrum)
        for index, n in enumerate(which.tolist()):
            if n not in self._blocks:
                continue
            by_logit = gradient[index, : self._n_weights].view(n_logits, width)
            common = by_logit.mean(0) * self._shared
            # One product per logit: a batch of them is several times as slow.
            pairs = zip(self._blocks[n], (by_logit - common).float(), strict=True)
            apart = torch.stack([block @ row for block, row in pairs]).double()
            apart -= apart.mean(0) * self._shared
            out = apart + torch.where(self._l2[n] > 0, common / self._l2[n], 0.0)
            direction[index, : self._n_weights] = out.flatten()
        return direction


def _inverse(
    block: Float[Tensor, "width width"], l2: Float[Tensor, " width"], floor: float
) -> Float[Tensor, "width width"]:
    """Return the inverse of a block with L2, 0 along what no row bends.

    Where rounding leaves no more, it is that of the diagonal.
    """
    diagonal = block.diagonal() + l2
    unit = torch.where(diagonal > floor, diagonal.clamp(min=floor).rsqrt(), 0.0)
    scaled = block * unit * unit.unsqueeze(1)
    scaled.diagonal().fill_(1 + _RIDGE)
    factor, failed = torch.linalg.cholesky_ex(scaled)
    if failed:
        return torch.diag(unit.square())
    half = torch.linalg.solve_triangular(factor, torch.diag(unit), upper=False)
    return half.t() @ half


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
        """Return the scale of some moments, see `divisors`.

        Args:
            mean: of each channel.
            deviation: of each channel.
            dtype: of the rows, by which their means are rounded.
        """
        varies = deviation > _ROUNDING * torch.finfo(dtype).eps * mean.abs()
        varies &= deviation > torch.finfo(torch.float32).tiny
        return cls(mean, divisors(deviation.where(varies, 0.0)))

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
