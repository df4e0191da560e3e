"""A mean with its 95 % interval, what that is over in words, and levels of significance."""

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from probekit.base.numbers import numpy_generator
from probekit.results.summaries.wording import range_text, seeds_text

K = TypeVar("K", bound=Hashable)

CONFIDENCE = 0.95

LEVEL = 1 - CONFIDENCE
"""The family-wise error: how often a family in which nothing differs has any verdict at all."""

_EXACT = 14  # seeds of which all signs are tried: 16,384 of them


@dataclass(frozen=True, slots=True)
class Drawn:
    """How many of what are resampled.

    Attributes:
        n: sentences or groups of the split.
        noun: what they are, in words.
        remark: what must be known of an interval over them.
    """

    n: int
    noun: str = "sentences"
    remark: str = ""

    @property
    def text(self) -> str:
        """What an interval is over, such as ``231 documents``."""
        return drawn_text([self])


def drawn_text(several: Iterable[Drawn]) -> str:
    """Return what several intervals are over: ``277 to 872 sentences or 231 documents``."""
    counts: dict[tuple[str, str], list[int]] = {}
    for drawn in several:
        counts.setdefault((drawn.noun, drawn.remark), []).append(drawn.n)
    parts = (f"{range_text(n)} {noun}, {remark}" for (noun, remark), n in counts.items())
    return " or ".join(part.removesuffix(", ") for part in parts)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, the half width of its interval, and what that is over.

    Attributes:
        mean: arithmetic mean.
        half: half the width of the 95 % interval; None where nothing is known of the spread: of a
            single value, and of values that are all the same.
        n: number of values, one per seed.
        over: what the interval is over: ``seeds``, ``sentences``, ``seeds and sentences``; where
            sentences come in groups, these stand in their place.
        drawn: how many sentences or groups these are; None over seeds alone.
        why_not: why it is not over sentences, as a message; None where that was not asked.
    """

    mean: float
    half: float | None
    n: int
    over: str = "seeds"
    drawn: Drawn | None = None
    why_not: str | None = None

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
        return replace(self, mean=self.mean * factor, half=half)


def interval_text(means: Sequence[Interval], whole: str = "95 % interval") -> str:
    """Return what the intervals of some means are over, and why some means have none.

    Args:
        means: at least one.
        whole: what is over it, such as ``mean and 95 % interval``.
    """
    known = [mean for mean in means if mean.half is not None]
    without = [mean for mean in means if mean.half is None]
    why = next((mean.why_not for mean in [*without, *known] if mean.why_not), None)
    if not known:
        alike = _alike_text(without)
        return f"no interval: {alike} and {why}" if why else f"{alike}, so no interval"
    ways = sorted({mean.over for mean in known}, key=len, reverse=True)
    units = [_over_text([mean for mean in known if mean.over == way]) for way in ways]
    text = f"{whole} over {', or over '.join(dict.fromkeys(units))}"
    if not any(way.startswith("seeds") for way in ways):
        text += f", {_alike_text(known)}"
    if without and why:
        return f"{text}; elsewhere none: {why}"
    return f"{text}, not over sentences: {why}" if why else text


def _alike_text(means: Sequence[Interval]) -> str:
    """Return how many seeds say nothing of their spread."""
    several = any(mean.n > 1 for mean in means)
    return seeds_text(mean.n for mean in means) + " that all agree" * several


def _over_text(means: Sequence[Interval]) -> str:
    """Return what intervals over the same are over, such as ``3 seeds and 150 sentences``."""
    seeds = [seeds_text(mean.n for mean in means)] if means[0].over.startswith("seeds") else []
    drawn = [mean.drawn for mean in means if mean.drawn is not None]
    return " and ".join([*seeds, *([drawn_text(drawn)] if drawn else [])])


def interval(values: Iterable[float]) -> Interval:
    """Return the mean of ``values`` (at least one) and its 95 % interval after Student's t.

    The half width is ``t(0.975, n - 1) * s / sqrt(n)`` with the sample deviation ``s``.
    """
    values = list(values)
    n = len(values)
    assert n > 0, "an interval needs a value"
    if len(set(values)) == 1:
        return Interval(values[0], None, n)
    from scipy.special import stdtrit  # slow to import

    mean, error = _mean_and_error(values)
    return Interval(mean, float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * error, n)


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    n = len(values)
    mean = math.fsum(values) / n
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    return mean, deviation / math.sqrt(n)


def student_p(values: Sequence[float]) -> float:
    """Return the two-sided significance of a mean (of at least two values) that is not zero.

    It is below 0.05 where the interval leaves out zero.
    """
    from scipy.special import stdtr  # slow to import

    assert len(values) > 1, "one value says nothing of its spread"
    mean, error = _mean_and_error(values)
    return float(2 * stdtr(len(values) - 1, -abs(mean) / error)) if error else float(mean == 0)


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


def undecided(p: Mapping[K, float]) -> set[K]:
    """Return the comparisons of a family that are not significant at 5 %, after Holm (1979)."""
    return {key for key, level in holm(p).items() if level >= LEVEL}
