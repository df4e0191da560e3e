"""Means over the tasks of a suite: intervals, the best layer, what stays within noise of it."""

import re

import numpy as np
import pytest
from scipy import stats

from probekit.errors import RecordError
from probekit.results.comparison.mean_scores import over_tasks
from probekit.results.tables import suite_table
from tests.results.samples import make_record

TASKS = 12


def scores(layer, split):
    """Layer 2 is the best on dev, 3 nearly as good on test, the others surely worse."""
    noise = np.random.default_rng([layer, split == "test"]).normal(0, 0.01, TASKS)
    levels = {"dev": (0.6, 0.7, 0.9, 0.85), "test": (0.6, 0.7, 0.88, 0.882)}[split]
    return levels[layer] + np.linspace(0, 0.05, TASKS) + noise


def records(layers=range(4), **changes):
    common = {"label": "label", "metric": "accuracy"} | changes
    made = []
    for layer in layers:
        dev, test = (scores(layer, split).tolist() for split in ("dev", "test"))
        for n in range(TASKS):
            reached = {"eval_score": dev[n], "test_score": test[n]}
            made.append(make_record("last", task=f"truth/{n}", depth=layer, **reached, **common))
    return made


def test_means_and_differences_are_scipys():
    found = over_tasks(records(), "test", "last")
    for layer, mean in found.means.items():
        values = scores(layer, "test")
        low, high = stats.t.interval(0.95, TASKS - 1, values.mean(), stats.sem(values))
        assert (mean.mean, mean.low, mean.high) == pytest.approx((values.mean(), low, high))
    best = scores(2, "test")
    p = {n: stats.ttest_rel(scores(n, "test"), best).pvalue for n in (0, 1, 3)}
    ranked = sorted(p, key=p.get)  # Holm: the smallest times 3, the next times 2, ...
    level = [min(1, max(p[m] * (3 - k) for k, m in enumerate(ranked[: i + 1]))) for i in range(3)]
    within = {2, *(n for n, value in zip(ranked, level, strict=True) if value >= 0.05)}
    assert set(found.best.within) == within == {2, 3}
    assert found.best.best == 2
    assert "paired over 12 tasks" in found.best.text


def test_seeds_are_averaged_before_tasks():
    once, twice = records(), [*records(), *records(seed=1)]
    one, two = (over_tasks(given, "test", "last") for given in (once, twice))
    assert one.best == two.best
    for layer, mean in one.means.items():
        assert (mean.mean, mean.half) == (two.means[layer].mean, two.means[layer].half)
        assert (mean.n, two.means[layer].n) == (1, 2)


def test_the_table_says_what_it_leaves_out():
    some = [*records()[:-1]]
    table = suite_table(some)
    assert "1 task lacks a layer and is left out" in table.text()
    assert re.search(r"over 11 tasks", table.text())
    rows = [line for line in table.text().splitlines() if re.match(r"\d( = emb)? +\d", line)]
    assert [("~" in row) for row in rows] == [False, False, True, True]


def test_columns_are_of_models():
    both = [*records(model="org/a"), *records(model="org/b")]
    assert re.split("  +", suite_table(both).text().splitlines()[0])[1:] == ["a, last", "b, last"]


def test_what_is_no_mean_over_tasks_is_refused():
    with pytest.raises(RecordError, match="no records with a depth"):
        suite_table([make_record("last")])
    with pytest.raises(RecordError, match=r"found accuracy \(%\), span F1 \(%\): give --metric"):
        suite_table([*records(), make_record("last", depth=1)])
    with pytest.raises(RecordError, match="0 of 12 tasks have every layer"):
        suite_table([r for n, r in enumerate(records()) if n // TASKS != n % 4])
