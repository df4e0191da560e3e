"""Metrics of classes and the confusion matrix, against scikit-learn and by hand."""

import numpy as np
import pytest
import sklearn.metrics as sklearn
from hypothesis import given, settings
from hypothesis import strategies as st

from probekit.errors import OptionError
from probekit.metrics import F1, Accuracy, Gold, Matthews, MicroF1, confusion, encode_gold
from probekit.testing.metric_checks import LENGTHS, ROWS, TAGS

NAMES = ("a", "b", "c", "d")


def tags_and_random(seed: int, classes: tuple[str, ...] = TAGS) -> tuple[Gold, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = [[classes[i] for i in rng.integers(0, len(classes), n)] for n in LENGTHS]
    return encode_gold(labels, classes), rng.integers(0, len(classes), ROWS)


def pairs(n_classes: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    one = st.integers(0, n_classes - 1)
    return st.lists(st.tuples(one, one), min_size=1, max_size=30)


def split(found: list[tuple[int, int]], names: tuple[str, ...]) -> tuple[Gold, np.ndarray]:
    ids, predicted = np.array(found, dtype=np.int64).T
    return Gold(ids, np.arange(len(found) + 1), names), predicted


@pytest.mark.filterwarnings("ignore:A single label was found")
@settings(max_examples=50)
@given(pairs(4))
def test_accuracy_micro_f1_and_matthews_equal_sklearn(found: list[tuple[int, int]]) -> None:
    gold, predicted = split(found, NAMES)
    accuracy = pytest.approx(sklearn.accuracy_score(gold.ids, predicted))
    micro = pytest.approx(sklearn.f1_score(gold.ids, predicted, average="micro"))
    matthews = pytest.approx(sklearn.matthews_corrcoef(gold.ids, predicted), abs=1e-12)
    assert Accuracy(gold).score(predicted) == {"accuracy": accuracy}
    assert MicroF1(gold).score(predicted) == {"micro-f1": micro, "accuracy": accuracy}
    assert Matthews(gold).score(predicted) == {"matthews": matthews, "accuracy": accuracy}


@settings(max_examples=50)
@given(pairs(2))
def test_f1_equals_sklearn(found: list[tuple[int, int]]) -> None:
    gold, predicted = split(found, ("0", "1"))
    judge = sklearn.precision_recall_fscore_support(
        gold.ids, predicted, average="binary", zero_division=0
    )
    precision, recall, f1, _ = judge
    expected = {"f1": f1, "precision": precision, "recall": recall}
    expected["accuracy"] = sklearn.accuracy_score(gold.ids, predicted)
    assert F1(gold).score(predicted) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("names", "positive"),
    [
        (("0", "1"), 1), (("1", "0"), 0), (("no", "yes"), 1), (("same", "different"), 0),
        (("1",), 0), (("0",), None),
    ],
)  # fmt: skip
def test_the_positive_class(names: tuple[str, ...], positive: int | None) -> None:
    ids = np.arange(len(names))
    scores = F1(Gold(ids, np.array([0, len(ids)]), names)).score(
        np.full(len(ids), 0 if positive is None else positive)
    )
    assert scores["recall"] == (0.0 if positive is None else 1.0)
    assert scores["precision"] == (0.0 if positive is None else 1 / len(ids))


def test_f1_is_for_two_classes() -> None:
    gold, _ = tags_and_random(0)
    with pytest.raises(OptionError, match=r"found 4: O, B-PER.*micro-f1"):
        F1(gold)


def test_matthews_of_many_rows_does_not_overflow() -> None:
    ids = np.repeat(np.arange(2), 2_000_000)
    gold = Gold(ids, np.array([0, len(ids)]), ("0", "1"))
    assert Matthews(gold).score(ids)["matthews"] == 1.0


def test_confusion_equals_sklearn() -> None:
    gold, predicted = tags_and_random(0)
    rows, columns, counts = confusion(gold, predicted)
    table = sklearn.confusion_matrix(gold.ids, predicted, labels=range(4))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            assert counts[i, j] == table[TAGS.index(row), TAGS.index(column)]
    assert counts.sum() == 21


def test_confusion_lists_what_occurs() -> None:
    gold = encode_gold([["B-LOC", "NEW", "O"]], TAGS)
    found = confusion(gold, np.array([3, 1, 1]))
    assert found.rows == ("O", "B-LOC", "NEW")
    assert found.columns == ("B-PER", "B-LOC")
    assert found.counts.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert found.counts.dtype == np.int64


def test_confusion_by_group() -> None:
    gold = encode_gold([["B-PER", "I-PER", "O", "B-LOC"]], TAGS)
    found = confusion(gold, np.array([2, 3, 0, 0]), ["O", "PER", "PER", "LOC"])
    assert found.rows == ("O", "PER", "LOC")
    assert found.columns == ("O", "PER", "LOC")
    assert found.counts.tolist() == [[1, 0, 0], [0, 1, 1], [1, 0, 0]]


def test_confusion_checks_predictions() -> None:
    gold, predicted = tags_and_random(0)
    with pytest.raises(OptionError, match="expected 21"):
        confusion(gold, predicted[1:])
    with pytest.raises(OptionError, match=r"0\.\.3"):
        confusion(gold, predicted + 4)
