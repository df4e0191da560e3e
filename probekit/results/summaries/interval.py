"""What a few seeds say: a mean with its 95 % interval, and levels of significance."""

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from probekit.base.numbers import numpy_generator

K = TypeVar("K", bound=Hashable)

CONFIDENCE = 0.95

LEVEL = 1 - CONFIDENCE
"""The family-wise error: how often a family in which nothing differs has any verdict at all."""

_EXACT = 14  # seeds of which all signs are tried: 16,384 of them


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, the half width of its interval, and how many values it is over.

    Attributes:
        mean: arithmetic mean.
        half: half the width of the 95 % interval; None for a single value, and for values that
            are all the same, which say nothing of their spread.
        n: number of values.
    """

    mean: float
    half: float | None
    n: int

    @property
    def low(self) -> float:
        """Lower end of the interval; the mean itself when there is no interval."""
        return self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        """Upper end of the interval; the mean itself when there is no interval."""
        return self.mean + (self.half or 0.0)

    def scaled(self, factor: float) -> "Interval":
        """Return the interval of ``factor`` (positive) times the values."""
        half = None if self.half is None else self.half * factor
        return Interval(self.mean * factor, half, self.n)


def interval(values: Iterable[float]) -> Interval:
    """Return the mean of ``values`` (at least one) and its 95 % interval after Student's t.

    The half width is ``t(0.975, n - 1) * s / sqrt(n)`` with the sample deviation ``s``.
    """
    values = list(values)
    n = len(values)
    assert n > 0, "an interval needs a value"
    if len(set(values)) == 1:
        return Interval(values[0], None, n)
    mean = math.fsum(values) / n
    from scipy.special import stdtrit  # slow to import

    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    t = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    return Interval(mean, t * deviation / math.sqrt(n), n)


def student_p(values: Sequence[float]) -> float:
    """Return the two-sided significance of a mean (of at least two values) that is not zero.

    It is below 0.05 where the interval leaves out zero.
    """
    from scipy.special import stdtr  # slow to import

    n = len(values)
    assert n > 1, "one value says nothing of its spread"
    mean = math.fsum(values) / n
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    if deviation == 0:
        return float(mean == 0)
    return float(2 * stdtr(n - 1, -abs(mean) / deviation * math.sqrt(n)))


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
        drawn = numpy_generator(0, "signs").choice((1.0, -1.0), size=(1 << _EXACT, n))
        signs = np.vstack([np.ones(n), drawn])
    sums = np.abs(signs @ values)
    # the same sum in another order may end in other bits
    return float((sums >= sums[0] * (1 - 1e-12)).mean())


def least_p(n_seeds: int) -> float:
    """Return the least significance that signs of so many seeds can have: 0.0625 of five."""
    return 2.0 / 2 ** min(n_seeds, _EXACT)


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
    raised = [p[key] * (len(ordered) - rank) for rank, key in enumerate(ordered)]
    corrected = dict(zip(ordered, itertools.accumulate(raised, max), strict=True))
    return {key: min(1.0, corrected[key]) for key in p}
