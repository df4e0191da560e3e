"""A mean with its 95 % confidence interval over seeds."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


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
