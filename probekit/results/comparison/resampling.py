"""Intervals over sentences, over groups of them, and over seeds and sentences together.

They are drawn with replacement, the same ones for all that is compared, and each is scored on what
was drawn (Efron and Tibshirani 1993, chapter 13; for scores of a whole test set: Koehn 2004).
Sentences of one document resemble each other, so that a draw of single sentences varies less than a
draw of documents does. Whole groups are drawn in their place (the cluster bootstrap: Davison and
Hinkley 1997, section 3.8), and left out in their place by the jackknife.

Each seed is scored on the same sentences, so seeds and sentences are crossed, and the mean over
seeds varies with both draws. With ``y[s, e]`` what sentence ``e`` adds to the score of seed ``s``,
the model is that of two-way random effects, ``y = mean + seed + sentence + interaction``, whose
variance components follow from the mean squares (Searle, Casella and McCulloch 1992, section 4.3;
Brennan 2001, chapter 3, where this is the absolute error of a crossed p x i design)::

    var(mean) = (MS_seed + MS_sentence - MS_interaction) / (S N)

with Student's t at the degrees of freedom of Satterthwaite (1946).

Scores that are no means over sentences (F1, correlations) get jackknife pseudo-values (Tukey 1958),
``y[s, e] = N score_s - (N - 1) score_s without e``: for a mean these are the sentences' own values,
for other smooth scores their linear parts. Where sentences come in groups, ``e`` is a whole group.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from probekit.base.numbers import numpy_generator
from probekit.errors import OptionError, RecordError
from probekit.metrics import Metric
from probekit.metrics.contract import Counts
from probekit.results.predictions import Predicted
from probekit.results.summaries.interval import CONFIDENCE, Drawn, Interval

Draws = Int64[np.ndarray, "samples groups"]
PerSample = Shaped[np.ndarray, "samples ..."]
Statistics = Callable[[Counts], Float64[np.ndarray, "samples k"]]
"""How often each sentence occurs in each sample, to k numbers of each sample."""

SAMPLES = 10_000

FEW = 10
"""Groups below which an interval over them is rough: their spread is hardly known."""

_AT_ONCE = 1 << 21  # sentences of a block of samples


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
        return cls.named(len(predicted.ids), predicted.groups, predicted.grouped_by)

    @classmethod
    def named(cls, n_sentences: int, names: Sequence[str], grouped_by: str) -> Self:
        """Return the groups of some sentences, given the name of each; no names are no groups."""
        number = {name: n for n, name in enumerate(dict.fromkeys(names))}
        numbers = np.array([number[name] for name in names], np.int64)
        return cls(n_sentences, numbers if number else None, grouped_by)

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
                f"{first} and {origin} group the sentences differently ({groups.grouped_by} and "
                f"{other.grouped_by}), and intervals resample whole groups. Delete the "
                "predictions of both, and train again with --predictions and the same --group."
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
                f"samples={self.samples}: an interval needs at least 100; 10000 is usual."
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


PseudoValues = Float64[np.ndarray, "seeds groups"]


@dataclass(frozen=True, slots=True)
class Crossed:
    """A mean score, or difference of scores, with its interval over seeds and sentences (groups).

    Attributes:
        mean: mean of the seeds' scores on the whole split.
        half: half the width of its 95 % interval.
        df: degrees of freedom of Student's t.
        p: two-sided significance of a mean that is not 0; below 0.05 where the interval leaves it
            out.
        n_seeds: seeds; of one the interval is over sentences alone.
        drawn: what else it is over: sentences of the split, or groups of them.
        seed_share: variance of the mean by seeds, in that by seeds and that by sentences added up
            (both hold the interaction); 0 of one seed, or of seeds that are all alike.
    """

    mean: float
    half: float
    df: float
    p: float
    n_seeds: int
    drawn: Drawn
    seed_share: float

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half

    @property
    def interval(self) -> Interval:
        """The mean and the half width, as tables print them; none of values without spread."""
        return Interval(self.mean, self.half or None, self.n_seeds, self.over, self.drawn)

    @property
    def over(self) -> str:
        """What the interval is over, in words."""
        return "seeds and " * bool(self.seed_share) + self.drawn.noun


def pseudo_values(scorer: Metric, predicted: Sequence[np.ndarray], groups: Groups) -> PseudoValues:
    """Return what each sentence, or each group of them, adds to the score of each seed.

    Args:
        scorer: the metric, prepared for the split.
        predicted: of each seed, as the metric wants it.
        groups: of the split's sentences.

    Raises:
        OptionError: the metric jumps.
    """
    if scorer.jumps:
        raise OptionError(
            f"{scorer.name} may jump with a single text, so runs are not compared by it: `table` "
            "shows its interval, and partial-auroc can be compared."
        )
    # three sentences, two of them right: accuracy 2/3, without a right one 1/2, without the wrong
    # one 1; N score - (N - 1) left out is 2 - 1 = 1 of a right one, 2 - 2 = 0 of the wrong one
    rows = []
    for of_seed in predicted:
        if groups.whole is None:
            left_out = scorer.left_out(of_seed)
        else:
            score = scorer.resampler(of_seed)
            left_out = np.concatenate([score(counts) for counts in groups.without_each()])
        n = len(left_out)
        rows.append(n * scorer.score(of_seed)[scorer.name] - (n - 1) * left_out)
    return np.stack(rows)


def crossed(scores: Sequence[float], values: PseudoValues, drawn: Drawn | None = None) -> Crossed:
    """Return the mean of some scores with its interval over seeds and sentences.

    The variance is never below that of seeds alone, nor below that of sentences alone: their sum
    less the interaction, which both hold, can be by chance. Satterthwaite's degrees of freedom
    count seeds ``(S + 3) / (S - 1)`` times: where few seeds happen to lie close together, their
    variance comes out too small and the degrees of freedom with it too many, so that the plain
    formula covers 92 % where three seeds vary more than the sentences, and this one 94.6 %. All
    choices are by simulation (`analyses/interval_coverage.py`).

    Args:
        scores: of each seed on the whole split, or the differences of two runs.
        values: pseudo-values of the same.
        drawn: what these are of; None are sentences.
    """
    n_seeds, n_groups = values.shape
    seed, sentence, interaction = variances(scores, values)
    variance = max(seed + sentence - interaction, seed, sentence)
    df = _degrees(seed, sentence, interaction, n_seeds, n_groups)
    mean, error = math.fsum(scores) / n_seeds, math.sqrt(variance)
    from scipy.special import stdtr, stdtrit  # slow to import

    return Crossed(
        mean=mean,
        half=float(stdtrit(df, (1 + CONFIDENCE) / 2)) * error,
        df=df,
        p=float(2 * stdtr(df, -abs(mean) / error)) if error else float(mean == 0),
        n_seeds=n_seeds,
        drawn=drawn or Drawn(n_groups),
        seed_share=seed / (seed + sentence) if seed else 0.0,
    )


def variances(scores: Sequence[float], values: PseudoValues) -> tuple[float, float, float]:
    """Return the variance of the mean by seeds, by sentences, and what both of these hold.

    They are the mean squares over ``S N``: the first one estimates ``seed / S + interaction / SN``,
    the second ``sentence / N + interaction / SN``, the third ``interaction / SN``. One seed has no
    first and no third.
    """
    n_seeds, n_sentences = values.shape
    by_sentence = values.mean(axis=0)
    sentence = float(by_sentence.var(ddof=1)) / n_sentences
    if n_seeds == 1 or (values == values[0]).all():
        return 0.0, sentence, 0.0
    seed = float(np.var(scores, ddof=1)) / n_seeds
    rest = values - values.mean(axis=1, keepdims=True) - by_sentence + by_sentence.mean()
    freedom = (n_seeds - 1) * (n_sentences - 1)
    return seed, sentence, float((rest**2).sum()) / freedom / (n_seeds * n_sentences)


def _degrees(
    seed: float, sentence: float, interaction: float, n_seeds: int, n_sentences: int
) -> float:
    """Return Satterthwaite's degrees of freedom, with the seeds' variance made larger."""
    if not seed:
        return float(n_sentences - 1)
    seed *= (n_seeds + 3) / (n_seeds - 1)
    variance = max(seed + sentence - interaction, seed, sentence)
    freedom = (n_seeds - 1) * (n_sentences - 1)
    squares = seed**2 / (n_seeds - 1) + sentence**2 / (n_sentences - 1) + interaction**2 / freedom
    return variance**2 / squares
