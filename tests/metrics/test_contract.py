"""What holds for every metric, how its scores are shown, and the checks on what is scored."""

import math

import numpy as np
import pytest

from probekit.errors import DataError, OptionError
from probekit.metrics import (
    METRICS,
    Gold,
    LabelSets,
    LogLoss,
    LossGold,
    Metric,
    Scale,
    ValueGold,
    encode_gold,
    scale_of,
)
from probekit.testing.metric_checks import METRIC_CHECKS, best_prediction, sample_case


@pytest.fixture(params=METRICS.values(), ids=METRICS.keys())
def metric(request: pytest.FixtureRequest) -> type[Metric]:
    return request.param


@pytest.mark.parametrize("check", METRIC_CHECKS, ids=lambda check: check.__name__)
def test_contract(metric: type[Metric], check) -> None:
    check(metric)


def test_the_best_prediction_scores_one_or_the_lowest(metric: type[Metric]) -> None:
    gold, _ = sample_case(metric, 0)
    scores = metric(gold).score(best_prediction(gold, metric))
    error = not metric.scale.greater_is_better and metric.name != "perplexity"
    assert scores[metric.name] == pytest.approx(0.0 if error else 1.0, abs=1e-12)


def test_errors_say_what_was_expected(metric: type[Metric]) -> None:
    gold, predicted = sample_case(metric, 0)
    with pytest.raises(OptionError, match=r"expected 21 predictions.* found 20"):
        metric(gold).score(predicted[1:])
    apart = metric.consumes in ("classes", "scores", "values")
    other = LossGold(1) if apart else encode_gold([["a"]], ("a",))
    with pytest.raises(OptionError, match=f"{metric.name} scores {metric.consumes}"):
        metric(other)
    if metric.consumes == "classes":
        predicted[0] = -1
        with pytest.raises(OptionError, match=r"0\.\.[13]"):
            metric(gold).score(predicted)


@pytest.mark.parametrize(
    ("kind", "parts", "message"),
    [
        (Gold, ([], [0], ("O",)), "no word"), (Gold, ([0, 0], [0, 1], ("O",)), "offsets"),
        (Gold, ([0, 0], [0, 2, 1, 2], ("O",)), "offsets"),
        (Gold, ([0, -100], [0, 2], ("O",)), "-100"), (Gold, ([0, 1], [0, 2], ("O",)), "0..0"),
        (Gold, ([0, 1], [0, 2], ("O", "O")), "distinct"),
        (Gold, ([0, 1], [0, 2], ("O", "")), "empty"),
        (ValueGold, ([], [0]), "no value"), (ValueGold, ([0.5, 1.0], [0, 1]), "offsets"),
        (ValueGold, ([0.5, math.nan], [0, 1, 2]), "row 1 is nan"),
        (ValueGold, ([math.inf, 0.5], [0, 1, 2]), "row 0 is inf"), (LossGold, (0,), "no row"),
    ],
)  # fmt: skip
def test_gold_refuses(kind: type, parts: tuple, message: str) -> None:
    arrays = [np.array(part) if isinstance(part, list) else part for part in parts]
    with pytest.raises(DataError, match=message):
        kind(*arrays)


def test_encode_gold_keeps_classes_first() -> None:
    gold = encode_gold([["Z", "A"], [], ["b", "a"]], ("b", "unused", "a"))
    assert gold.names == ("b", "unused", "a", "A", "Z")
    assert gold.ids.tolist() == [4, 3, 0, 2]
    assert gold.offsets.tolist() == [0, 2, 2, 4]


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
