"""The paired bootstrap against a naive one, and against theory."""

import numpy as np
import pytest

from probekit.results.comparison.resampling import Bootstrap, Groups, counts
from tests.results.comparison.files import bootstrap


def test_counts_are_of_what_was_drawn(monkeypatch):
    monkeypatch.setattr("probekit.results.comparison.resampling._AT_ONCE", 30)
    blocks = list(Bootstrap(samples=102, seed=1).draws(Groups(7)))
    assert [len(block) for block in blocks] == [4] * 25 + [2]
    for block in blocks:
        expected = [[(row == sentence).sum() for sentence in range(7)] for row in block]
        assert counts(block, Groups(7)).tolist() == expected


def _mean(gains):
    return lambda times: times @ gains / len(gains)


def test_p_agrees_with_the_interval_and_is_never_zero():
    never = bootstrap(Groups(10), lambda times: np.zeros(len(times)), samples=100)
    assert (never.low, never.high, never.p) == (0.0, 0.0, 1.0)
    always = bootstrap(Groups(10), lambda times: np.ones(len(times)), samples=1000)
    assert always.p == pytest.approx(2 / 1001)
    random = np.random.default_rng(2)
    for shift in (0.05, 0.1, 0.15, 0.2, 0.25):
        found = bootstrap(Groups(100), _mean(random.normal(shift, 1, 100)), samples=2000)
        if abs(found.p - 0.05) > 0.005:
            assert (found.p < 0.05) == (found.low > 0 or found.high < 0)


def test_the_seed_decides():
    gain = np.random.default_rng(0).normal(size=50)
    one, same, other = (
        bootstrap(Groups(50), lambda t: t @ gain, seed=s, samples=100) for s in (0, 0, 1)
    )
    assert one == same != other
