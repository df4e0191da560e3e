"""Statistics of a split with their bootstrap intervals over its sentences, or groups of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float64

from probekit.metrics.contract import Counts
from probekit.results.comparison.bootstrap import check_samples, resampled, scored_samples
from probekit.results.comparison.resampled_groups import Groups

Statistics = Callable[[Counts], Float64[np.ndarray, "samples k"]]
"""How often each sentence occurs in each sample, to k numbers of each sample."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number of a split, and its 95 % percentile interval over resampled sentences or groups.

    Attributes:
        value: on the sentences as they are.
        low: lower end.
        high: upper end.
        p: two-sided level at which 0 is left out, see `comparison.bootstrap.Resampled`.
    """

    value: float
    low: float
    high: float
    p: float

    @property
    def holds_zero(self) -> bool:
        """Whether the interval holds 0."""
        return self.low <= 0 <= self.high

    def text(self, factor: float = 1.0, *, signed: bool = False, decimals: int = 1) -> str:
        """Return it times a factor as ``12.3 (10.1 to 14.6)``; the value, and its interval."""
        plus = "+" if signed else ""
        value, low, high = (
            f"{one * factor:{plus}z.{decimals}f}" for one in (self.value, self.low, self.high)
        )
        return value if self.low == self.high else f"{value} ({low} to {high})"


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """How sentences are resampled (Efron and Tibshirani 1993, chapter 13).

    Attributes:
        samples: number of samples.
        seed: of the draw; statistics of one seed are resampled together.
    """

    samples: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse too few samples for an interval."""
        check_samples(self.samples)

    def estimates(self, groups: Groups, statistics: Statistics) -> list[Estimate]:
        """Return each of some statistics of a split's sentences with its interval."""
        point = statistics(np.ones((1, groups.n_sentences)))[0]
        found = scored_samples(groups, statistics, samples=self.samples, seed=self.seed)
        drawn = partial(resampled, groups=groups)
        return [
            Estimate(value, one.low, one.high, one.p)
            for value, one in zip(point.tolist(), map(drawn, found.T), strict=True)
        ]
