"""Ridge regression in closed form, for every strength of L2 and every part of the rows.

min over w, b of sum_i v_i (t_i - w z_i - b)^2 / 2 + l2 / 2 |w|^2, the weights v summing to 1: with
rows and numbers centred, w = (Z'VZ + l2)^-1 Z'Vt (Hoerl & Kennard 1970).
"""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.probe.fitters.linear_problems import Problems
from probekit.probe.fitters.minimise import Minimum


class RidgeSums:
    """All problems over the same rows, summed up block after block."""

    def __init__(self, problems: Problems, targets: Float64[Tensor, " n"]) -> None:
        """Keep strengths and parts, and the number of each row."""
        self._problems, self._targets = problems, targets
        self._joined: list[Tensor] = []

    def add(self, rows: slice, z: Float[Tensor, "n r"]) -> None:
        """Add some rows."""
        numbers = self._targets[rows].unsqueeze(1)
        own = torch.cat([z.double(), numbers, torch.ones_like(numbers)], 1)
        weights = self._problems.parts[:, rows].double()
        products = [own.t() @ (own * one.unsqueeze(1)) for one in weights]
        before = self._joined or [torch.zeros_like(one) for one in products]
        self._joined = [one + two for one, two in zip(before, products, strict=True)]

    def finish(self) -> Minimum:
        """Return weights and bias of every problem, laid out as `LinearObjective` does."""
        strengths = [self._problems.l2[self._problems.part == n] for n in range(len(self._joined))]
        found = [_solve_part(*pair) for pair in zip(self._joined, strengths, strict=True)]
        points, values = (torch.cat(parts) for parts in zip(*found, strict=True))
        zero = torch.zeros_like(values)
        return Minimum(
            points=points,
            value=values,
            gradient=zero,
            tolerance=zero,
            iterations=zero.long(),
            converged=torch.ones_like(zero, dtype=torch.bool),
        )


def _solve_part(
    product: Float64[Tensor, "r2 r2"], strengths: Float64[Tensor, " strengths"]
) -> tuple[Float64[Tensor, "strengths r1"], Float64[Tensor, " strengths"]]:
    """Return weights with the bias behind them, and objectives, of all strengths.

    Args:
        product: weighted products of rows, numbers and ones, in this order, among each other.
        strengths: of L2.
    """
    product = product / product[-1, -1]  # the weights sum to 1 but for rounding
    means = product[-1, :-1]
    centred = product[:-1, :-1] - torch.outer(means, means)
    spectrum, vectors = torch.linalg.eigh(centred[:-1, :-1])
    target = vectors.t() @ centred[:-1, -1]
    turned = target / (spectrum.clamp(min=0) + strengths.unsqueeze(1))
    weights = turned @ vectors.t()
    bias = means[-1] - weights @ means[:-1]
    values = (centred[-1, -1] - turned @ target) / 2
    return torch.cat([weights, bias.unsqueeze(1)], 1), values
