"""Families of comparisons: levels of significance that hold for all of them together."""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from probekit.base.numbers.seeding import numpy_generator
from probekit.results.summaries.interval import CONFIDENCE

LEVEL = 1 - CONFIDENCE
"""The family-wise error: how often a family in which nothing differs has any verdict at all."""

SAMPLES_EACH = 80
"""Bootstrap samples per comparison of a family at least, so that p can be half of what Holm asks of
the first."""

K = TypeVar("K", bound=Hashable)

_EXACT = 14  # seeds of which all signs are tried: 16,384 of them
_DRAWN = 1 << _EXACT


def holm(p: Mapping[K, float]) -> dict[K, float]:
    """Return levels of significance corrected for the size of their family (Holm 1979).

    Those below 5 % are significant together: the chance that any true null is among them is 5 % at
    most, however the comparisons depend on each other.

    Args:
        p: by comparison.
    """
    # three comparisons of 0.04, 0.01, 0.03: ascending 0.01 * 3, 0.03 * 2, 0.04 * 1, of which none
    # may be below the one before it: 0.03, 0.06, 0.06
    ordered = sorted(p, key=lambda key: p[key])
    raised = [p[key] * (len(ordered) - place) for place, key in enumerate(ordered)]
    corrected = dict(zip(ordered, itertools.accumulate(raised, max), strict=True))
    return {key: min(1.0, corrected[key]) for key in p}


def sign_flip_p(differences: Sequence[float]) -> float:
    """Return the two-sided significance of paired differences by flipping their signs.

    The share of all ``2^n`` choices of signs whose mean is as far from 0 as the one that was found
    (Fisher 1935, section 21): exact for differences that are symmetric about 0, whatever their
    distribution, and never below `least_p`. Of more than 14 differences 16,384 choices are drawn,
    and the one that was found is added.

    Args:
        differences: one per seed.
    """
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if n <= _EXACT:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    else:
        drawn = numpy_generator(0, "signs").choice((1.0, -1.0), size=(_DRAWN, n))
        signs = np.vstack([np.ones(n), drawn])
    sums = np.abs(signs @ values)
    # the same sum in another order may end in other bits
    return float((sums >= sums[0] * (1 - 1e-12)).mean())


def least_p(n_seeds: int) -> float:
    """Return the least significance that signs of so many seeds can have: 0.0625 of five."""
    return 2.0 / 2 ** min(n_seeds, _EXACT)
