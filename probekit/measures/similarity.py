"""How alike layers are, and how many directions each of them fills, from cross-covariances."""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from probekit.measures.layer_sums import LayerSums
from probekit.measures.measured_rows import MeasuredRows

MEMORY = 2**30
"""Bytes that cross-covariances may take at a time; more of them take more passes."""

Pair = tuple[int, int]


class LayerSimilarity:
    """Linear CKA between all pairs of layers, and the effective rank of each one's covariance.

    Linear CKA (Kornblith et al. 2019, section 3 and equation 4) of rows X and Y, each centred, is
    ||Y'X||^2 / (||X'X|| ||Y'Y||), in Frobenius norms. Cross-covariances are added up in float64
    over the rows centred by their mean, as many at a time as ``memory`` holds. Those of two layers,
    which nearly all of the time goes into, are multiplied in float32 within a block, which moves
    CKA by 1e-8 (MPNet, 20,000 words).

    Attributes:
        cka: by pair of layers, NaN where one is constant.
        effective_rank: of the covariance of each layer, NaN of a constant one.
    """

    def __init__(self, rows: MeasuredRows, sums: LayerSums, *, memory: int = MEMORY) -> None:
        """Read the rows as often as it takes."""
        n_layers = len(rows.layers)
        squares = np.full((n_layers, n_layers), np.nan)
        self.effective_rank = np.full(n_layers, np.nan)
        varying = [place for place in range(n_layers) if not sums.constant[place]]
        for (one, other), product in _products(rows, sums, varying, memory):
            squares[one, other] = squares[other, one] = float(product.square().sum())
            if one == other:
                self.effective_rank[one] = effective_rank(product)
        own = np.sqrt(np.diag(squares))
        self.cka: Float64[np.ndarray, "layers layers"] = squares / np.outer(own, own)


def _products(
    rows: MeasuredRows, sums: LayerSums, places: Sequence[int], memory: int
) -> Iterator[tuple[Pair, Float64[Tensor, "dim dim"]]]:
    """Yield the sum of the products of the centred rows of every pair of layers, and of each.

    Each layer is divided by its largest magnitude, so that no product is beyond float32.
    """
    # Layers 0, 1, 2 of which two products fit: a pass over layers 0 and 1 for (0, 0) and (0, 1),
    # one over 0, 1, 2 for (0, 2) and (1, 1), and one over 1 and 2 for (1, 2) and (2, 2).
    pairs = list(combinations_with_replacement(places, 2))
    dim = rows.array.dim
    at_once = max(memory // (8 * dim * dim), 1)
    for start in range(0, len(pairs), at_once):
        own = pairs[start : start + at_once]
        needed = sorted({place for pair in own for place in pair})
        mean, largest = sums.mean[needed][:, None], sums.largest[needed][:, None, None]
        found = {pair: torch.zeros(dim, dim, dtype=torch.float64) for pair in own}
        for block in rows.blocks([rows.layers[place] for place in needed]):
            centred = dict(zip(needed, (block - mean) / largest, strict=True))
            single = {place: values.float() for place, values in centred.items()}
            for (one, other), product in found.items():
                if one == other:
                    product.addmm_(centred[one].T, centred[one])
                else:
                    product.add_(single[one].T @ single[other])
        yield from found.items()


def effective_rank(covariance: Float64[Tensor, "dim dim"]) -> float:
    """Return the effective rank of a covariance, whatever its scale.

    It is the exponential of the Shannon entropy of the singular values as shares of their sum (Roy
    & Vetterli 2007, "The effective rank", definition 1). Those of a covariance are its eigenvalues,
    which are the squares of the singular values of the centred rows: the effective rank of the rows
    themselves is higher.
    """
    values = torch.linalg.eigvalsh(covariance).clamp(min=0)
    shares = values / values.sum()
    return float(torch.special.entr(shares).sum().exp())
