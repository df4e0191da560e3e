"""Paired bootstrap over sentences: is one score really higher than another on the same split?

Sentences, or whole groups of them, are drawn with replacement, the same ones for both sides, and
both are scored on what was drawn (Efron and Tibshirani 1993, chapter 13; for scores of a whole test
set: Koehn 2004).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from probekit.base.numbers.seeding import numpy_generator
from probekit.errors import OptionError
from probekit.metrics.contract import Counts
from probekit.results.comparison.resampled_groups import Groups
from probekit.results.summaries.interval import CONFIDENCE

Draws = Int64[np.ndarray, "samples groups"]
Differences = Float64[np.ndarray, " samples"]
PerSample = Shaped[np.ndarray, "samples ..."]

_BLOCK = 1 << 21  # sentences drawn at a time


@dataclass(frozen=True, slots=True)
class Resampled:
    """What resampling says about a difference.

    Attributes:
        low: lower end of its 95 % percentile interval; over groups it is wider, see
            `Groups.stretch`.
        high: upper end.
        p: two-sided achieved significance level: twice the share of samples on which the sign of
            the difference is the other one, or zero (with one sample added to both sides, so that
            it is never 0). It is below 0.05 where the interval leaves out zero (Efron and
            Tibshirani 1993, section 15.4); Koehn (2004) reports the one-sided share.
    """

    low: float
    high: float
    p: float


def bootstrap(
    groups: Groups,
    difference: Callable[[Counts], Differences],
    *,
    samples: int = 10_000,
    seed: int = 0,
) -> Resampled:
    """Resample sentences and say where a difference of scores lies.

    Args:
        groups: of the split's sentences.
        difference: how often each sentence was drawn, (samples, sentences), to the difference of
            scores on these samples.
        samples: number of samples.
        seed: of the draw.

    Raises:
        OptionError: fewer than 100 samples, or fewer than two sentences.
    """
    return resampled(resample(groups, difference, samples=samples, seed=seed), groups)


def resample(
    groups: Groups, score: Callable[[Counts], PerSample], *, samples: int = 10_000, seed: int = 0
) -> PerSample:
    """Return what was scored on samples of sentences, a block of samples after the other.

    Args:
        groups: of the split's sentences.
        score: how often each sentence was drawn, (samples, sentences), to one row per sample.
        samples: number of samples.
        seed: of the draw.

    Raises:
        OptionError: fewer than 100 samples, or fewer than two sentences.
    """
    check_samples(samples)
    if groups.n_sentences < 2:
        raise OptionError("a bootstrap over sentences needs at least two sentences.")
    return scored_samples(groups, score, samples=samples, seed=seed)


def check_samples(samples: int) -> None:
    """Refuse too few samples for an interval.

    Raises:
        OptionError: fewer than 100.
    """
    if samples < 100:
        raise OptionError(f"--samples {samples}: an interval needs at least 100; 10000 is usual.")


def scored_samples(
    groups: Groups, score: Callable[[Counts], PerSample], *, samples: int, seed: int
) -> PerSample:
    """Return the same as `resample`, whatever the numbers of samples and sentences."""
    blocks = draws(groups, samples, seed)
    return np.concatenate([score(counts(block, groups)) for block in blocks])


def resampled(found: Differences, groups: Groups) -> Resampled:
    """Say where a difference lies, given that of every sample of some groups."""
    tail = (1 - CONFIDENCE) / 2
    middle, stretch = found.mean(), groups.stretch
    wide = found if stretch == 1 else middle + stretch * (found - middle)
    # ends stay among the samples, so that a share is none below 0
    low, high = np.clip(np.quantile(wide, [tail, 1 - tail]), found.min(), found.max())
    other = min(int((wide <= 0).sum()), int((wide >= 0).sum()))
    return Resampled(float(low), float(high), min(1.0, 2 * (other + 1) / (len(found) + 1)))


def draws(groups: Groups, samples: int, seed: int) -> Iterator[Draws]:
    """Yield the groups of every sample, a block of samples at a time."""
    random = numpy_generator(seed, "bootstrap")
    n, at_once = groups.drawn.n, max(1, _BLOCK // groups.n_sentences)
    for first in range(0, samples, at_once):
        yield random.integers(0, n, size=(min(at_once, samples - first), n))


def counts(block: Draws, groups: Groups) -> Counts:
    """Return how often each sentence occurs in each sample, given the groups that were drawn."""
    # Two samples of three groups, [[2, 0, 2], [1, 1, 1]]: the numbers of the second one are
    # raised by 3, [[2, 0, 2], [4, 4, 4]], so that one count of 0 to 5 is enough, [1 0 2 0 3 0].
    n = block.shape[1]
    places = block + np.arange(len(block))[:, None] * n
    flat = np.bincount(places.ravel(), minlength=len(block) * n)
    return groups.counts(flat.reshape(len(block), n).astype(np.float64))
