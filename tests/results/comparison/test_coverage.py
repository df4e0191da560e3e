"""Intervals over seeds and sentences hold the truth of simulated experiments."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from probekit.metrics import METRICS, Gold
from probekit.results.comparison.resampling import Groups, crossed, pseudo_values

ANALYSES = Path(__file__).parents[3] / "analyses"
EXPERIMENTS = 2000


@pytest.fixture
def simulated(monkeypatch):
    monkeypatch.syspath_prepend(str(ANALYSES))
    return importlib.import_module("interval_coverage")


def ours(shares):
    return {name: share for name, share in shares.items() if not name.endswith("alone")}


def test_the_truth_is_that_of_many_seeds_and_rows(simulated):
    setting = simulated.Setting(400, 4000, 16.0)
    gold, found, _ = simulated.predictions(setting, np.random.default_rng(0))
    for metric in ("accuracy", "f1"):
        scores, _ = simulated.scored(metric, gold, found["a"])
        assert scores.mean() == pytest.approx(simulated.truth(setting, "a", metric), abs=0.015)


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_scores_are_those_of_the_library(simulated, metric):
    setting = simulated.Setting(3, 277, 1.0)
    gold, found, _ = simulated.predictions(setting, np.random.default_rng(0))
    scorer = METRICS[metric](Gold(gold.astype(np.int64), np.arange(278), ("0", "1")))
    predicted = list(found["b"].astype(np.int64))
    scores, values = simulated.scored(metric, gold, found["b"])
    assert scores == pytest.approx([scorer.score(one)[metric] for one in predicted])
    assert values == pytest.approx(pseudo_values(scorer, predicted, Groups(277)))


def test_seeds_vary_by_the_ratio(simulated):
    setting = simulated.Setting(2000, 400, 4.0)
    seeds = np.random.default_rng(0).normal(0, setting.seed_deviation, 20_000)
    right = 0.35 * setting.right("a", 1, seeds) + 0.65 * setting.right("a", 0, seeds)
    rows = right.mean() * (1 - right.mean()) / setting.n_rows
    assert right.var() / rows == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize(("seeds", "rows", "ratio"), [(3, 277, 0.0), (3, 277, 4.0), (10, 277, 1.0)])
def test_some_settings_are_covered(simulated, seeds, rows, ratio):
    """Four standard errors of a share of 300 below 95 %; one source alone is far below."""
    shares = simulated.coverage(simulated.Setting(seeds, rows, ratio), 300, seed=1)
    assert min(ours(shares).values()) >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / 300)
    if ratio >= 4:
        assert shares["rows alone"] < 0.8


def test_intervals_over_documents_hold_what_those_over_rows_do_not(simulated):
    shares = simulated.coverage(simulated.Setting(1, 300, 0.0, 20), 300, seed=1)
    assert shares["over documents"] >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / 300)
    assert shares["over rows"] < 0.9


def test_values_of_documents_are_those_of_the_library(simulated):
    gold, found, groups = simulated.predictions(
        simulated.Setting(2, 300, 1.0, 20), np.random.default_rng(0)
    )
    scorer = METRICS["accuracy"](Gold(gold.astype(np.int64), np.arange(301), ("0", "1")))
    scores, values = [], []
    for one in (found["a"], found["b"]):
        predicted = list(one.astype(np.int64))
        scores.append(np.array([scorer.score(seed)["accuracy"] for seed in predicted]))
        values.append(pseudo_values(scorer, predicted, groups))
    expected = crossed((scores[0] - scores[1]).tolist(), values[0] - values[1], groups.drawn)
    low, high = simulated.over_documents(gold, found, groups)["over documents"]
    assert (low, high) == pytest.approx((expected.low, expected.high))


@pytest.mark.slow
def test_every_setting_is_covered(simulated):
    for setting in simulated.settings():
        shares = ours(simulated.coverage(setting, EXPERIMENTS, seed=0))
        assert min(shares.values()) >= 0.93, (setting, shares)
