"""What holds for every metric, and the checks on gold labels and predictions."""

import math

import numpy as np
import pytest

from probekit.errors import DataError, OptionError
from probekit.metrics import METRICS, Gold, LossGold, Metric, ValueGold, encode_gold
from tests.metrics.cases import TAGS, best_prediction, gold_and_random, tags_and_random

OF_CLASSES = [name for name, metric in METRICS.items() if metric.consumes == "classes"]


@pytest.fixture(params=METRICS.values(), ids=METRICS.keys())
def metric(request: pytest.FixtureRequest) -> type[Metric]:
    return request.param


def test_names(metric: type[Metric]) -> None:
    assert METRICS[metric.name] is metric
    assert metric.summary and metric.text
    assert metric.consumes in ("classes", "values", "losses", "probabilities")


def test_the_best_prediction_scores_one_or_the_lowest(metric: type[Metric]) -> None:
    gold, _ = gold_and_random(metric, 0)
    scores = metric(gold).score(best_prediction(gold, metric))
    error = not metric.scale.greater_is_better and metric.name != "perplexity"
    assert scores[metric.name] == pytest.approx(0.0 if error else 1.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_main_score_first_and_equal_to_the_judge(metric: type[Metric], seed: int) -> None:
    gold, predicted = gold_and_random(metric, seed)
    scorer = metric(gold)
    scores = scorer.score(predicted)
    assert next(iter(scores)) == metric.name
    assert scores == scorer.judge(predicted)
    assert all(type(score) is float and math.isfinite(score) for score in scores.values())
    best = scorer.score(best_prediction(gold, metric))[metric.name]
    assert (
        scores[metric.name] < best if metric.scale.greater_is_better else scores[metric.name] > best
    )


def test_scorer_keeps_no_state(metric: type[Metric]) -> None:
    gold, predicted = gold_and_random(metric, 1)
    scorer = metric(gold)
    first = scorer.score(predicted)
    scorer.score(best_prediction(gold, metric))
    assert scorer.score(predicted) == first


def test_wrong_number_of_predictions(metric: type[Metric]) -> None:
    gold, predicted = gold_and_random(metric, 0)
    with pytest.raises(OptionError, match=r"expected 21 predictions.* found 20"):
        metric(gold).score(predicted[1:])


def test_gold_of_another_kind_is_refused(metric: type[Metric]) -> None:
    for other in METRICS.values():
        if {other.consumes, metric.consumes} == {"losses", "probabilities"}:
            continue  # both know of gold no more than how many rows there are
        if other.consumes != metric.consumes:
            gold, _ = gold_and_random(other, 0)
            with pytest.raises(OptionError, match=f"{metric.name} scores {metric.consumes}"):
                metric(gold)


@pytest.mark.parametrize("name", [name for name in OF_CLASSES if name != "f1"])
def test_label_unseen_in_train_is_an_error_of_the_head(name: str) -> None:
    gold = encode_gold([["B-PER", "B-NEW", "B-LOC"]], TAGS)
    scorer = METRICS[name](gold)
    wrong, right = np.array([1, 1, 3]), np.array([1, 4, 3])
    assert scorer.score(wrong)[name] < scorer.score(right)[name] == pytest.approx(1)


@pytest.mark.parametrize("bad", [-1, 4])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_predicted_id_without_a_name(name: str, bad: int) -> None:
    gold, predicted = gold_and_random(METRICS[name], 0)
    predicted[0] = bad
    with pytest.raises(OptionError, match=r"0\.\.[13]"):
        METRICS[name](gold).score(predicted)


@pytest.mark.parametrize(
    ("ids", "offsets", "names", "message"),
    [
        ([], [0], ("O",), "no word"),
        ([0, 0], [0, 1], ("O",), "offsets"),
        ([0, 0], [0, 2, 1, 2], ("O",), "offsets"),
        ([0, -100], [0, 2], ("O",), "-100"),
        ([0, 1], [0, 2], ("O",), "0..0"),
        ([0, 1], [0, 2], ("O", "O"), "distinct"),
        ([0, 1], [0, 2], ("O", ""), "empty"),
    ],
)
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


def test_random_tags_are_not_all_right() -> None:
    gold, predicted = tags_and_random(0)
    assert 0 < (gold.ids == predicted).mean() < 1  # what the tests above rest on
