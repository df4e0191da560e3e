"""What holds for every metric, and the checks on gold labels and predictions."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from probekit.errors import DataError, OptionError
from probekit.metrics import METRICS, Accuracy, Gold, Metric, encode_gold

CLASSES = ("O", "B-PER", "I-PER", "B-LOC")


@pytest.fixture(params=METRICS.values(), ids=METRICS.keys())
def metric(request: pytest.FixtureRequest) -> Metric:
    return request.param()


def gold_and_random(seed: int) -> tuple[Gold, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = [[CLASSES[i] for i in rng.integers(0, 4, n)] for n in (3, 0, 5, 1, 12)]
    return encode_gold(labels, CLASSES), rng.integers(0, 4, 21)


def test_names(metric: Metric) -> None:
    assert METRICS[metric.name] is type(metric)
    assert metric.summary


def test_gold_against_itself_scores_one(metric: Metric) -> None:
    gold, _ = gold_and_random(0)
    assert metric.prepare(gold).score(gold.ids)[metric.name] == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_main_score_first_and_equal_to_the_judge(metric: Metric, seed: int) -> None:
    gold, predicted = gold_and_random(seed)
    scorer = metric.prepare(gold)
    scores = scorer.score(predicted)
    assert next(iter(scores)) == metric.name
    assert scores == scorer.judge(predicted)
    assert 0 <= scores[metric.name] < 1


def test_scorer_keeps_no_state(metric: Metric) -> None:
    gold, predicted = gold_and_random(1)
    scorer = metric.prepare(gold)
    first = scorer.score(predicted)
    scorer.score(gold.ids)
    assert scorer.score(predicted) == first


def test_label_unseen_in_train_is_an_error_of_the_head(metric: Metric) -> None:
    gold = encode_gold([["B-PER", "B-NEW"]], CLASSES)
    assert metric.prepare(gold).score(np.array([1, 1]))[metric.name] == 0.5


def test_wrong_number_of_predictions(metric: Metric) -> None:
    gold, predicted = gold_and_random(0)
    with pytest.raises(OptionError, match=r"expected 21 predictions.* found 20"):
        metric.prepare(gold).score(predicted[1:])


@pytest.mark.parametrize("bad", [-1, 4])
def test_predicted_id_without_a_name(metric: Metric, bad: int) -> None:
    gold, predicted = gold_and_random(0)
    predicted[0] = bad
    with pytest.raises(OptionError, match=r"0\.\.3"):
        metric.prepare(gold).score(predicted)


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


def test_encode_gold_keeps_classes_first() -> None:
    gold = encode_gold([["Z", "A"], [], ["b", "a"]], ("b", "unused", "a"))
    assert gold.names == ("b", "unused", "a", "A", "Z")
    assert gold.ids.tolist() == [4, 3, 0, 2]
    assert gold.offsets.tolist() == [0, 2, 2, 4]


def test_accuracy_equals_sklearn() -> None:
    gold, predicted = gold_and_random(3)
    expected = accuracy_score(gold.ids, predicted)
    assert Accuracy().prepare(gold).score(predicted) == {"accuracy": pytest.approx(expected)}
