"""One interval over seeds and sentences together: both were drawn, and every pair of them is seen.

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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from probekit.metrics import Metric
from probekit.metrics.contract import Scores
from probekit.results.comparison.resampling import Drawn, Groups
from probekit.results.summaries.interval import CONFIDENCE, Interval

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
        """The mean and the half width, as tables print them."""
        return Interval(self.mean, self.half, self.n_seeds)

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
    """
    # three sentences, two of them right: accuracy 2/3, without a right one 1/2, without the wrong
    # one 1; N score - (N - 1) left out is 2 - 1 = 1 of a right one, 2 - 2 = 0 of the wrong one
    rows = []
    for of_seed in predicted:
        left_out = _left_out(scorer, of_seed, groups)
        n = len(left_out)
        rows.append(n * scorer.score(of_seed)[scorer.name] - (n - 1) * left_out)
    return np.stack(rows)


def _left_out(scorer: Metric, predicted: np.ndarray, groups: Groups) -> Scores:
    """Return the score without each group in turn."""
    if groups.whole is None:
        return scorer.left_out(predicted)
    score = scorer.resampler(predicted)
    return np.concatenate([score(counts) for counts in groups.without_each()])


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
