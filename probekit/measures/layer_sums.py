"""What one pass over the rows sums up: means, norms, directions, and which layers are constant."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from probekit.measures.measured_rows import MeasuredRows


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerSums:
    """Sums over all rows, layer by layer.

    Attributes:
        mean: mean row.
        largest: largest magnitude.
        constant: whether all rows of a layer are the same.
        norm: mean norm of a row.
        norm_deviation: standard deviation of the norms.
        anisotropy: mean cosine between two different rows; NaN without two that are not zero.
    """

    mean: Float64[Tensor, "layers dim"]
    largest: Float64[Tensor, " layers"]
    constant: Bool[Tensor, " layers"]
    norm: Float64[Tensor, " layers"]
    norm_deviation: Float64[Tensor, " layers"]
    anisotropy: Float64[Tensor, " layers"]


def sum_layers(rows: MeasuredRows) -> LayerSums:
    """Read all rows once.

    Raises:
        EntryError: a value is not finite.
    """
    total: Tensor | float = 0.0
    units: Tensor | float = 0.0
    lows, highs, norms = [], [], []
    for block in rows.blocks():
        rows.check_finite(block)
        norm = block.norm(dim=2)
        total = total + block.sum(1)
        units = units + (block / norm.clamp(min=torch.finfo(norm.dtype).tiny)[:, :, None]).sum(1)
        lows.append(block.amin(1))
        highs.append(block.amax(1))
        norms.append(norm)
    low, high = torch.stack(lows).amin(0), torch.stack(highs).amax(0)
    norm = torch.cat(norms, 1)  # one number for each row of a layer
    assert isinstance(total, Tensor) and isinstance(units, Tensor)
    return LayerSums(
        mean=total / len(rows),
        largest=torch.maximum(-low, high).amax(1),
        constant=(low == high).all(1),
        norm=norm.mean(1),
        norm_deviation=norm.std(1, correction=0),
        anisotropy=_mean_cosine(units, (norm > 0).sum(1)),
    )


def _mean_cosine(
    units: Float64[Tensor, "layers dim"], count: Int64[Tensor, " layers"]
) -> Float64[Tensor, " layers"]:
    """Return the mean cosine of all pairs of different rows, from the sum of their unit vectors.

    Ethayarajh (2019, section 3.2) samples pairs; all of them need no sample.
    """
    # The squared norm of u_1 + ... + u_n is n, of each vector with itself, and twice the sum of the
    # cosines of all pairs: of u, u and -u it is 1 = 3 + 2 (1 - 1 - 1), and their mean is -1/3,
    # (1 - 3) / (3 * 2).
    return (units.square().sum(1) - count) / (count * (count - 1))
