"""Intrinsic dimension by the distances to the two nearest neighbours (TwoNN).

scikit-dimension has TwoNN too, but comes with numba and LLVM, ten times what the neighbours of
scikit-learn need.
"""

import math

import numpy as np
from jaxtyping import Float64
from sklearn.neighbors import NearestNeighbors

_KEPT = 0.9
"""Share of the ratios that is fitted to: the largest are noisy (Facco et al. 2017)."""

_FEWEST = 10
"""Ratios below which there is no line to fit."""


def intrinsic_dimension(rows: Float64[np.ndarray, "n dim"]) -> float:
    """Return the dimension of the manifold that rows lie on, by TwoNN.

    Of mu = r2 / r1, the distances of a row to its second and first neighbour, -log(1 - F(mu)) is d
    log(mu), whatever the density: d is the slope of the line through the origin that fits the
    smallest 90 % (Facco et al. 2017, "Estimating the intrinsic dimension of datasets by a minimal
    neighborhood information", equations 5 and 6). Equal rows count as one, as their distance
    says nothing.

    Returns:
        NaN where too few rows differ, or all are as far from their second neighbour as from their
        first.
    """
    distinct = np.unique(rows, axis=0)
    if len(distinct) < _FEWEST:
        return math.nan
    search = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(distinct - distinct.mean(0))
    near = search.kneighbors(return_distance=False)
    # computed again: products of long rows cancel where two are close
    first, second = (np.linalg.norm(distinct - distinct[near[:, n]], axis=1) for n in range(2))
    log_mu = np.sort(np.log(np.maximum(second, first) / np.minimum(second, first)))
    kept = int(_KEPT * len(log_mu))
    log_mu, cumulated = log_mu[:kept], np.arange(1, kept + 1) / len(log_mu)
    below = float(log_mu @ log_mu)
    return float(log_mu @ -np.log1p(-cumulated)) / below if below > 0 else math.nan
