"""Intervals over the sentences of a split: a bootstrap that draws sentences, or whole groups.

They are drawn with replacement, the same ones for all that is compared, and each is scored on what
was drawn (Efron and Tibshirani 1993, chapter 13; for scores of a whole test set: Koehn 2004).
Sentences of one document resemble each other, so that a draw of single sentences varies less than a
draw of documents does. Whole groups are drawn in their place (the cluster bootstrap: Davison and
Hinkley 1997, section 3.8), and left out in their place by the jackknife.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from probekit.base.numbers.seeding import numpy_generator
from probekit.errors import OptionError, RecordError
from probekit.metrics.contract import Counts
from probekit.results.predictions import Predicted
from probekit.results.summaries.interval import CONFIDENCE
from probekit.results.summaries.wording import range_text

Draws = Int64[np.ndarray, "samples groups"]
PerSample = Shaped[np.ndarray, "samples ..."]
Statistics = Callable[[Counts], Float64[np.ndarray, "samples k"]]
"""How often each sentence occurs in each sample, to k numbers of each sample."""

SAMPLES = 10_000

FEW = 10
"""Groups below which an interval over them is rough: their spread is hardly known."""

_AT_ONCE = 1 << 21  # sentences of a block of samples


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


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of a split's sentences; without numbers every sentence is one.

    Attributes:
        n_sentences: sentences of the split.
        numbers: the group of each sentence, numbered in the order in which they come first.
        grouped_by: what the groups are: ``document``, or the column that the user named.
    """

    n_sentences: int
    numbers: Int64[np.ndarray, " sentences"] | None = field(default=None, repr=False)
    grouped_by: str = ""

    @classmethod
    def of(cls, predicted: Predicted) -> Self:
        """Return the groups of the sentences of a split."""
        number = {name: n for n, name in enumerate(dict.fromkeys(predicted.groups))}
        numbers = np.array([number[name] for name in predicted.groups], np.int64)
        return cls(len(predicted.ids), numbers if number else None, predicted.grouped_by)

    @property
    def whole(self) -> Int64[np.ndarray, " sentences"] | None:
        """The group of each sentence, where groups are resampled; None where sentences are.

        Sentences that are all of one group say nothing of what another one would be like: a file
        whose only mark of documents stands at its top divides nothing.
        """
        return None if self.numbers is None or not self.numbers.any() else self.numbers

    @property
    def drawn(self) -> Drawn:
        """How many of what are resampled."""
        if self.whole is None:
            remark = f"all of one {self.grouped_by}" if self.numbers is not None else ""
            return Drawn(self.n_sentences, remark=remark)
        n = int(self.whole.max()) + 1
        noun = "documents" if self.grouped_by == "document" else f"groups by {self.grouped_by}"
        return Drawn(n, noun, "so few that intervals are rough" * (n < FEW))

    @property
    def stretch(self) -> float:
        """What deviations of bootstrap samples are multiplied with.

        Samples of n groups vary ``sqrt((n - 1) / n)`` times as much as they should, and an interval
        needs Student's t. With thousands of sentences neither matters; plain percentiles of 20
        documents cover 93 % (Hesterberg 2015, whose expanded percentiles these are to the first
        order).
        """
        if self.whole is None:
            return 1.0
        from scipy.special import ndtri, stdtrit  # slow to import

        n, upper = self.drawn.n, (1 + CONFIDENCE) / 2
        return math.sqrt(n / (n - 1)) * float(stdtrit(n - 1, upper) / ndtri(upper))

    def counts(self, of_groups: Float64[np.ndarray, "samples groups"]) -> Counts:
        """Return how often each sentence occurs, given how often its group does."""
        return of_groups if self.whole is None else of_groups[:, self.whole]

    def without_each(self) -> Iterator[Counts]:
        """Yield samples that lack one group each, a block at a time."""
        n, at_once = self.drawn.n, max(1, _AT_ONCE // self.n_sentences)
        for first in range(0, n, at_once):
            # of three groups, the second and third in a block: [[1, 0, 1], [1, 1, 0]]
            yield self.counts(1.0 - np.eye(min(at_once, n - first), n, k=first))


def shared_groups(named: Iterable[tuple[str, Groups]]) -> Groups:
    """Return the groups of some sentences, given those that every run knows: all alike, or none.

    Args:
        named: whose they are, for messages, and the groups.

    Raises:
        RecordError: two runs divide the sentences in other ways.
    """
    (first, groups), *others = named
    for origin, other in others:
        if groups.numbers is None:
            first, groups = origin, other
        elif other.numbers is not None and not np.array_equal(other.numbers, groups.numbers):
            raise RecordError(
                f"{first} knows other groups of the sentences ({groups.grouped_by}) than {origin} "
                f"({other.grouped_by}), and whole groups are resampled. Delete the predictions of "
                "both, and train again with --predictions and the same --group."
            )
    return groups


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number of a split, and its 95 % percentile interval over resampled sentences or groups.

    Attributes:
        value: on the sentences as they are.
        low: lower end; over groups the interval is wider, see `Groups.stretch`.
        high: upper end.
        p: two-sided achieved significance level: twice the share of samples on which the sign is
            the other one, or zero (with one sample added to both sides, so that it is never 0). It
            is below 0.05 where the interval leaves out zero (Efron and Tibshirani 1993, section
            15.4); Koehn (2004) reports the one-sided share.
    """

    value: float
    low: float
    high: float
    p: float

    def text(self, factor: float = 1.0, *, signed: bool = False, decimals: int = 1) -> str:
        """Return it times a factor as ``12.3 (10.1 to 14.6)``; the value, and its interval."""
        plus = "+" if signed else ""
        value, low, high = (
            f"{number * factor:{plus}z.{decimals}f}" for number in (self.value, self.low, self.high)
        )
        return value if self.low == self.high else f"{value} ({low} to {high})"


def estimate(value: float, samples: Float64[np.ndarray, " samples"], groups: Groups) -> Estimate:
    """Return a number with the interval that its values on samples of some groups give."""
    tail = (1 - CONFIDENCE) / 2
    middle, stretch = samples.mean(), groups.stretch
    wide = samples if stretch == 1 else middle + stretch * (samples - middle)
    # ends stay among the samples, so that a share is none below 0
    low, high = np.clip(np.quantile(wide, [tail, 1 - tail]), samples.min(), samples.max())
    other = min(int((wide <= 0).sum()), int((wide >= 0).sum()))
    p = min(1.0, 2 * (other + 1) / (len(samples) + 1))
    return Estimate(value, float(low), float(high), p)


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """How sentences are resampled.

    Attributes:
        samples: number of samples.
        seed: of the draw; what one seed draws is the same for all that is scored on it.

    Raises:
        OptionError: too few samples for an interval.
    """

    samples: int = SAMPLES
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse too few samples."""
        if self.samples < 100:
            raise OptionError(
                f"--samples {self.samples}: an interval needs at least 100; 10000 is usual."
            )

    def draws(self, groups: Groups) -> Iterator[Draws]:
        """Yield the groups of every sample, a block of samples at a time."""
        random = numpy_generator(self.seed, "bootstrap")
        n, at_once = groups.drawn.n, max(1, _AT_ONCE // groups.n_sentences)
        for first in range(0, self.samples, at_once):
            yield random.integers(0, n, size=(min(at_once, self.samples - first), n))

    def resample(self, groups: Groups, score: Callable[[Counts], PerSample]) -> PerSample:
        """Return what was scored on samples of sentences, a block of samples after the other.

        Args:
            groups: of the split's sentences.
            score: how often each sentence was drawn, (samples, sentences), to one row per sample.
        """
        return np.concatenate([score(counts(block, groups)) for block in self.draws(groups)])

    def estimates(self, groups: Groups, statistics: Statistics) -> list[Estimate]:
        """Return each of some statistics of a split's sentences with its interval."""
        values = statistics(np.ones((1, groups.n_sentences)))[0].tolist()
        samples = self.resample(groups, statistics).T
        return [
            estimate(value, drawn, groups) for value, drawn in zip(values, samples, strict=True)
        ]


def counts(block: Draws, groups: Groups) -> Counts:
    """Return how often each sentence occurs in each sample, given the groups that were drawn."""
    # Two samples of three groups, [[2, 0, 2], [1, 1, 1]]: the numbers of the second one are
    # raised by 3, [[2, 0, 2], [4, 4, 4]], so that one count of 0 to 5 is enough, [1 0 2 0 3 0].
    n = block.shape[1]
    places = block + np.arange(len(block))[:, None] * n
    flat = np.bincount(places.ravel(), minlength=len(block) * n)
    return groups.counts(flat.reshape(len(block), n).astype(np.float64))
