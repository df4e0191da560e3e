"""Intervals against scipy's Student t, and against theory: they cover the mean 95 % of the time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from probekit.metrics import Scale
from probekit.results.comparison.resampling import Estimate
from probekit.results.summaries.interval import Interval, interval
from probekit.results.summaries.typeset import Cell, score_column


def cells(*intervals):
    scale = Scale(percent=False)
    return score_column("", [one and Cell(one, scale) for one in intervals]).cells


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


def test_a_zero_has_no_sign_of_its_own():
    tiny = -1e-9
    assert cells(Interval(tiny, 0.0, 2)) == ["0.00 ± 0.00"]
    assert Estimate(tiny, 2 * tiny, 0.1, 1.0).text() == "0.0 (0.0 to 0.1)"
    assert Estimate(tiny, -1.0, 0.1, 1.0).text(signed=True) == "+0.0 (-1.0 to +0.1)"


def test_signs_stand_one_below_the_other():
    found = cells(interval([1.0, 3.0]), interval([10.0]), None)
    assert found[0].startswith("2.00 ± ") and [one.strip() for one in found[1:]] == ["10.00", "-"]
    assert len({len(cell) - len(cell.lstrip()) for cell in found}) == 1


def test_a_perplexity_of_many_digits_is_short():
    assert cells(interval([6.4e46])) == ["6.4e+46"]
    assert cells(interval([999_999.0])) == ["999999.00"]
