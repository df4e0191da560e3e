"""Intervals over seeds and corrected significance against references, and error over families."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from probekit.metrics import METRICS, Gold
from probekit.results.comparison.judging import Evidence, difference, family, over_sentences
from probekit.results.comparison.pairing import Predictions
from probekit.results.comparison.resampling import Bootstrap, Groups
from probekit.results.comparison.runs import RecordedRun
from probekit.results.summaries.interval import Interval, holm, interval, least_p, sign_flip_p
from tests.results.samples import make_record

SEED = 20261126
"""Of the simulated families: fixed before anything was looked at."""


def stepwise(p, level):
    """Holm's procedure as he states it: reject the smallest while p <= level / those left."""
    left, rejected = dict(enumerate(p)), set()
    while left:
        smallest = min(left, key=left.get)
        if left[smallest] >= level / len(left):
            break
        rejected.add(smallest)
        del left[smallest]
    return rejected


def test_an_example_of_the_textbook():
    corrected = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert corrected == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert holm({}) == {}


@given(st.lists(st.floats(0, 1), max_size=8))
def test_equals_the_stepwise_procedure(p):
    corrected = holm(dict(enumerate(p)))
    assert all(own <= raised <= 1 for own, raised in zip(p, corrected.values(), strict=True))
    # at every level that is none of the corrected values themselves
    for level in (0.01, 0.05, 0.2, 0.9):
        if min((abs(one - level) for one in corrected.values()), default=1) > 1e-9:
            assert {key for key, one in corrected.items() if one < level} == stepwise(p, level)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_flipped_signs_equal_scipys_permutations(n):
    values = np.random.default_rng(n).normal(0.5, 1, n)
    expected = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    assert sign_flip_p(values.tolist()) == pytest.approx(expected.pvalue)


def test_the_least_that_signs_can_say():
    assert sign_flip_p([0.1, 0.2, 0.3, 0.1, 0.4]) == least_p(5) == 0.0625
    assert sign_flip_p([0.1] * 20) == pytest.approx(1 / 16385)
    assert sign_flip_p([0.1, -0.1, 0.2, -0.2]) == 1


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=12).filter(lambda v: np.std(v) > 1e-3))
def test_equals_scipy(values):
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    found = interval(values)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9, abs=1e-12)
    assert found.n == len(values)


def test_values_that_are_one_or_the_same_have_no_interval():
    """They say nothing of their spread: a solver on all of train draws nothing."""
    assert interval([0.25]) == Interval(0.25, None, 1)
    assert interval([0.25]).low == interval([0.25]).high == 0.25
    assert interval([0.7, 0.7, 0.7]) == Interval(0.7, None, 3)
    assert Interval(0.5, 0.25, 3).scaled(100) == Interval(50.0, 25.0, 3)
    assert Interval(0.5, None, 1).scaled(100) == Interval(50.0, None, 1)


def null_family(random, n_heads=6, n_seeds=5, n=200, samples=1000, better=0.0, spread=0.15):
    """Heads of the same quality against the first one: whether any is said to differ."""
    gold = Gold(random.integers(0, 2, n), np.arange(n + 1), ("0", "1"))
    hard = random.normal(0, 1, n)
    scorer = METRICS["accuracy"](gold)

    def predict(quality):
        right = hard + random.normal(0, 1, n) < quality + spread * random.normal()
        return np.where(right, gold.ids, 1 - gold.ids)

    heads = [
        Predictions(
            scorer, {seed: predict(0.8 + better * (head > 0)) for seed in range(n_seeds)}, Groups(n)
        )
        for head in range(n_heads)
    ]
    known = [Evidence({}, one) for one in over_sentences(heads, Bootstrap(samples=samples))]
    run = RecordedRun(text="x", records=(make_record(),))
    first, *others = (
        Evidence({s: o.score for s, o in e.predicted.items()}, e.predicted) for e in known
    )
    return family([difference(run, run, one, first, "test") for one in others])


def errors(runs, **options):
    random = np.random.default_rng(SEED)
    return sum(any(one.verdict for one in null_family(random, **options)) for _ in range(runs))


def test_families_without_a_difference_seldom_have_a_verdict():
    assert errors(80, samples=500) / 80 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 80)


def test_a_large_difference_has_one():
    found = null_family(np.random.default_rng(SEED), better=0.8)
    assert [one.verdict for one in found] == ["higher"] * 5
    assert all(one.over == "seeds and sentences" for one in found)


@pytest.mark.slow
@pytest.mark.parametrize(("n_seeds", "spread"), [(5, 0.15), (3, 0.15), (1, 0.0)])
def test_the_family_wise_error_in_a_thousand_families(n_seeds, spread):
    """At most 5 % and three standard errors; heads of one seed are compared as they are trained."""
    found = errors(1000, n_seeds=n_seeds, spread=spread, samples=10_000)
    assert found / 1000 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)
