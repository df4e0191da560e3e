"""The interval over seeds and sentences: an analysis of variance by hand, and theory."""

import numpy as np
import pytest
from scipy import stats

from probekit.metrics import METRICS, Gold, ValueGold
from probekit.results.comparison.resampling import (
    Bootstrap,
    Groups,
    crossed,
    pseudo_values,
    variances,
)


def texts(n, seeds, right=0.7, spread=0.1, seed=0):
    """One label per sentence, and what some seeds say, who know the same sentences."""
    random = np.random.default_rng(seed)
    gold = random.integers(0, 2, n)
    hard = random.normal(0, 1, n)
    found = [
        np.where(hard + random.normal(0, 1, n) < right + spread * random.normal(), gold, 1 - gold)
        for _ in range(seeds)
    ]
    return Gold(gold, np.arange(n + 1), ("0", "1")), found


def scored(metric, gold, found):
    scorer = METRICS[metric](gold)
    values = pseudo_values(scorer, found, Groups(len(gold.offsets) - 1))
    return [scorer.score(one)[metric] for one in found], values


def test_equals_an_analysis_of_variance_by_hand():
    """Accuracy: sums of squares of the table of right answers, cell by cell."""
    gold, found = texts(40, 4, spread=0.6, seed=1)
    right = np.array([one == gold.ids for one in found], dtype=float)
    n_seeds, n = right.shape
    grand = right.mean()
    ss_seed = n * sum((row.mean() - grand) ** 2 for row in right)
    ss_sentence = n_seeds * sum((column.mean() - grand) ** 2 for column in right.T)
    ss_all = sum((cell - grand) ** 2 for cell in right.ravel())
    ms_seed = ss_seed / (n_seeds - 1)
    ms_sentence = ss_sentence / (n - 1)
    ms_both = (ss_all - ss_seed - ss_sentence) / ((n_seeds - 1) * (n - 1))
    assert min(ms_seed, ms_sentence) > ms_both > 0  # no variance is below zero
    scores, values = scored("accuracy", gold, found)
    assert values == pytest.approx(right)
    assert np.array(variances(scores, values)) * n_seeds * n == pytest.approx(
        [ms_seed, ms_sentence, ms_both]
    )
    outcome = crossed(scores, values)
    variance = (ms_seed + ms_sentence - ms_both) / (n_seeds * n)
    more = ms_seed * (n_seeds + 3) / (n_seeds - 1)
    df = (more + ms_sentence - ms_both) ** 2 / (
        more**2 / (n_seeds - 1) + ms_sentence**2 / (n - 1) + ms_both**2 / ((n_seeds - 1) * (n - 1))
    )
    assert (outcome.mean, outcome.df) == (pytest.approx(grand), pytest.approx(df))
    assert outcome.half == pytest.approx(stats.t.ppf(0.975, df) * np.sqrt(variance))
    assert outcome.p == pytest.approx(2 * stats.t.sf(grand / np.sqrt(variance), df))


def test_one_seed_or_seeds_that_are_alike_are_a_test_of_sentences():
    gold, (found, _) = texts(50, 2)
    scores, values = scored("accuracy", gold, [found])
    expected = stats.ttest_1samp((found == gold.ids).astype(float), 0.0)
    for n in (1, 3):
        outcome = crossed(scores * n, np.repeat(values, n, axis=0))
        assert (outcome.over, outcome.df, outcome.n_seeds) == ("sentences", 49, n)
        assert [outcome.low, outcome.high] == pytest.approx([*expected.confidence_interval(0.95)])
        assert outcome.p == pytest.approx(expected.pvalue)


def test_the_same_predictions_do_not_differ():
    outcome = crossed([0.0, 0.0], np.zeros((2, 30)))
    assert (outcome.mean, outcome.half, outcome.p, outcome.over) == (0, 0, 1, "sentences")


def test_seeds_that_differ_are_said_to_even_where_their_variance_adds_nothing():
    """The interaction can be larger than the seeds' variance: the sentences' is then all."""
    gold, found = texts(200, 3, spread=0.0)
    outcome = crossed(*scored("accuracy", gold, found))
    assert outcome.over == "seeds and sentences" and 0 < outcome.seed_share < 0.5


@pytest.mark.parametrize("metric", ["f1", "matthews", "spearman"])
def test_sentences_vary_as_the_bootstrap_says(metric):
    """No means over sentences, and the same variance by both, of one seed and of three."""
    gold, found = texts(300, 3, spread=0.3)
    if metric == "spearman":
        random = np.random.default_rng(1)
        gold = ValueGold(random.normal(size=300), np.arange(301))
        found = [gold.values + random.normal(0, 1, 300) for _ in range(3)]
    scorer = METRICS[metric](gold)
    _, values = scored(metric, gold, found)
    resamplers = [scorer.resampler(one) for one in found]
    samples = Bootstrap(samples=4000).resample(
        Groups(300), lambda counts: np.stack([one(counts) for one in resamplers], 1)
    )
    by_jackknife = values.var(axis=1, ddof=1) / 300
    assert by_jackknife == pytest.approx(samples.var(axis=0), rel=0.12)
    _, sentence, interaction = variances([0, 0, 1], values)
    assert sentence == pytest.approx(samples.mean(axis=1).var(), rel=0.12)
    # what the bootstrap says of the interaction: seeds one by one less all of them together
    expected = (samples.var(axis=0).mean() - samples.mean(axis=1).var()) / 2
    assert interaction == pytest.approx(expected, rel=0.12)


def test_the_interval_leaves_out_zero_where_p_is_below_five_percent():
    random = np.random.default_rng(3)
    for _ in range(200):
        values = random.normal(random.normal(0, 0.2), 1, (3, 40)) + random.normal(0, 0.5, (3, 1))
        outcome = crossed(values.mean(axis=1).tolist(), values)
        assert (outcome.low > 0 or outcome.high < 0) == (outcome.p < 0.05)
