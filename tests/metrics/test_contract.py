"""What holds for every metric, and the checks on gold labels and predictions."""

import math

import numpy as np
import pytest

from probekit.errors import DataError, OptionError
from probekit.metrics import METRICS, Gold, LossGold, Metric, ValueGold, encode_gold
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
    ("ids", "offsets", "names", "message"),
    [
        ([], [0], ("O",), "no word"), ([0, 0], [0, 1], ("O",), "offsets"),
        ([0, 0], [0, 2, 1, 2], ("O",), "offsets"), ([0, -100], [0, 2], ("O",), "-100"),
        ([0, 1], [0, 2], ("O",), "0..0"), ([0, 1], [0, 2], ("O", "O"), "distinct"),
        ([0, 1], [0, 2], ("O", ""), "empty"),
    ],
)  # fmt: skip
def test_gold_refuses(
    ids: list[int], offsets: list[int], names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        Gold(np.array(ids, dtype=np.int64), np.array(offsets), names)


@pytest.mark.parametrize(
    ("values", "offsets", "message"),
    [
        ([], [0], "no value"),
        ([0.5, 1.0], [0, 1], "offsets"),
        ([0.5, math.nan], [0, 1, 2], "row 1 is nan"),
        ([math.inf, 0.5], [0, 1, 2], "row 0 is inf"),
    ],
)
def test_gold_values_refuse(values: list[float], offsets: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ValueGold(np.array(values), np.array(offsets))


def test_no_losses() -> None:
    with pytest.raises(DataError, match="no row"):
        LossGold(0)


def test_encode_gold_keeps_classes_first() -> None:
    gold = encode_gold([["Z", "A"], [], ["b", "a"]], ("b", "unused", "a"))
    assert gold.names == ("b", "unused", "a", "A", "Z")
    assert gold.ids.tolist() == [4, 3, 0, 2]
    assert gold.offsets.tolist() == [0, 2, 2, 4]
