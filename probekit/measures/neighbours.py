"""Intrinsic dimension by the distances to the two nearest neighbours (TwoNN).

scikit-dimension has TwoNN too, but comes with numba and LLVM, ten times what the neighbours of
scikit-learn need.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from sklearn.neighbors import NearestNeighbors

from probekit.base.numbers.seeding import numpy_generator

_KEPT = 0.9
"""Share of the ratios that is fitted to: the largest are noisy (Facco et al. 2017)."""

_FEWEST = 10
"""Ratios below which there is no line to fit."""


_BOOTSTRAP = 1000
"""Bootstrap samples of the ratios."""


@dataclass(frozen=True)
class IntrinsicDimension:
    """An estimate of the dimension of the manifold that rows lie on.

    Attributes:
        value: the dimension; NaN where it is undefined.
        low: lower end of its 95 % interval over the rows.
        high: upper end.
        rows: different rows that it was estimated from.
    """

    value: float
    low: float
    high: float
    rows: int


def intrinsic_dimension(rows: Float64[np.ndarray, "n dim"], seed: int = 0) -> IntrinsicDimension:
    """Return the dimension of the manifold that rows lie on, by TwoNN.

    Of mu = r2 / r1, the distances of a row to its second and first neighbour, -log(1 - F(mu)) is d
    log(mu), whatever the density: d is the slope of the line through the origin that fits the
    smallest 90 % (Facco et al. 2017, "Estimating the intrinsic dimension of datasets by a minimal
    neighborhood information", equations 5 and 6). Equal rows count as one, as their distance
    says nothing. The interval is a percentile bootstrap of the ratios, taken as independent.

    Args:
        rows: neighbours are searched among these alone.
        seed: of the bootstrap.

    Returns:
        NaN where too few rows differ, or all are as far from their second neighbour as from their
        first.
    """
    distinct = np.unique(rows, axis=0)
    count = len(distinct)
    if count < _FEWEST:
        return IntrinsicDimension(math.nan, math.nan, math.nan, count)
    search = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(distinct - distinct.mean(0))
    near = search.kneighbors(return_distance=False)
    # computed again: products of long rows cancel where two are close
    first, second = (np.linalg.norm(distinct - distinct[near[:, n]], axis=1) for n in range(2))
    log_mu = np.log(np.maximum(second, first) / np.minimum(second, first))
    random = numpy_generator(seed, "intrinsic dimension")
    again = [_slope(log_mu[random.integers(count, size=count)]) for _ in range(_BOOTSTRAP)]
    low, high = np.quantile(again, [0.025, 0.975])
    return IntrinsicDimension(_slope(log_mu), float(low), float(high), count)


def _slope(log_mu: Float64[np.ndarray, " n"]) -> float:
    """Return the slope of -log(1 - F) over the smallest of some log(mu)."""
    kept = int(_KEPT * len(log_mu))
    smallest, cumulated = np.sort(log_mu)[:kept], np.arange(1, kept + 1) / len(log_mu)
    below = float(smallest @ smallest)
    return float(smallest @ -np.log1p(-cumulated)) / below if below > 0 else math.nan
