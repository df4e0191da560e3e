"""How scores are shown follows the metric."""

import math

import numpy as np
import pytest

from probekit.metrics import METRICS, Gold, LabelSets, LogLoss, LossGold, Scale, ValueGold, scale_of
from probekit.testing.metric_checks import best_prediction


def test_every_metric_says_how_it_is_shown():
    for name, metric in METRICS.items():
        assert scale_of(name) is metric.scale
    assert scale_of("perplexity") == Scale(percent=False, greater_is_better=False)
    assert scale_of("of a newer version") == Scale()
    assert not scale_of("unseen rows").percent


def test_best_is_the_first_of_the_best():
    assert Scale().best({1: 0.5, 2: 0.75, 3: 0.75}) == 2
    assert Scale(greater_is_better=False).best({1: 2.0, 2: 1.5, 3: 1.5}) == 2


def test_intervals_end_where_scores_do():
    percent, raw = Scale(), Scale(percent=False)
    assert percent.clip(-20, 130) == (0, 100)
    assert percent.clip(-130, -5) == (-100, -5)
    assert raw.clip(-20, 130) == (0, 130)
    for correlation in ("matthews", "spearman"):
        assert scale_of(correlation).clip(-20, 130) == (-20, 100)
        assert scale_of(correlation).clip(-130, 140) == (-100, 100)


@pytest.mark.parametrize("name", METRICS)
def test_the_lowest_score_is_that_of_the_worst_predictions_or_the_least_error(name):
    ids, offsets = np.array([0, 1, 0, 1]), np.array([0, 2, 4])
    worst = {
        "classes": (Gold(ids, offsets, ("O", "B-A")), 1 - ids),
        "scores": (Gold(ids, offsets, ("O", "B-A")), np.stack([ids, 1.0 - ids], 1)),
        "values": (ValueGold(ids * 1.0, offsets), ids * -1.0),
        "losses": (LossGold(4, offsets), np.zeros(4)),
        "probabilities": (LossGold(4, offsets), best_prediction(LossGold(4), LogLoss)[:4]),
    }
    if name == "squared-error":
        worst["values"] = (worst["values"][0], ids * 1.0)
    if name == "average-precision":  # of some rows with the label it is above 0
        worst["scores"] = (LabelSets(np.zeros((4, 1), bool), offsets, ("a",)), np.zeros((4, 1)))
    gold, predicted = worst[METRICS[name].consumes]
    score = METRICS[name](gold).score(predicted)[name]
    found = scale_of(name).lowest
    assert found == pytest.approx(score) or (name == "perplexity" and score == 1 > found)


def test_a_wide_range_of_raw_scores_needs_a_logarithmic_axis():
    raw = Scale(percent=False)
    assert raw.is_wide(10, 201) and not raw.is_wide(10, 199)
    assert not Scale().is_wide(1, 100)
    assert not raw.is_wide(0, math.inf)
