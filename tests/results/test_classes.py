"""Single classes: order, F1 against scikit-learn, means over seeds, merged confusions."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, f1_score

from probekit.errors import RecordError
from probekit.results.summaries import scored
from tests.results.samples import make_record


def test_tags_stand_by_type_and_o_last():
    names = ["O", "I-PER", "B-PER", "B-LOC", "fromloc.city-name", "1", "0"]
    expected = ["0", "1", "B-LOC", "B-PER", "I-PER", "fromloc.city-name", "O"]
    assert sorted(names, key=scored.class_order) == expected


def test_scores_come_from_the_metric_of_spans_or_from_the_confusion():
    spans = make_record(scores={"dev/f1": 0.9, "dev/f1/LOC": 0.5, "test/f1/LOC": 0.25})
    assert scored.class_scores(spans, "dev") == {"LOC": 0.5}
    assert scored.class_scores(spans, "test") == {"LOC": 0.25}
    draw = np.random.default_rng(0)
    gold, predicted = draw.integers(0, 3, 200), draw.integers(0, 4, 200)
    counts = confusion_matrix(gold, predicted, labels=range(4))[:3]
    table = {"rows": list("abc"), "columns": list("abcd"), "counts": counts}
    record = make_record(scores={}, confusion=table)
    expected = f1_score(gold, predicted, labels=range(4), average=None, zero_division=0)
    assert list(scored.class_scores(record, "dev")) == list("abcd")
    assert list(scored.class_scores(record, "dev").values()) == pytest.approx(expected)
    assert scored.class_scores(record, "test") == {}


def test_means_are_over_the_seeds_that_know_the_class():
    weights = {"A": {1: 0.75, 2: 0.25}, "O": {1: 1.0}}
    records = [
        make_record(seed=0, scores={"dev/f1/A": 0.25}, class_weights={"A": {1: 0.25, 2: 0.75}}),
        make_record(seed=1, scores={"dev/f1/A": 0.75, "dev/f1/B": 0.5}, class_weights=weights),
    ]
    found = scored.mean_class_scores(records, "dev", "p32")
    assert {name: (one.mean, one.n) for name, one in found.items()} == {
        "A": (0.5, 2),
        "B": (0.5, 1),
    }
    assert scored.mean_class_weights(records, "p32") == {"A": {1: 0.5, 2: 0.5}, "O": {1: 1.0}}
    for mean in (
        lambda r: scored.mean_class_scores(r, "dev", "p32"),
        lambda r: scored.mean_class_weights(r, ""),
    ):
        with pytest.raises(RecordError, match="share seeds"):
            mean([*records, make_record(seed=1, lr=0.5, key="x")])


def test_confusions_are_added_by_name():
    one = {"rows": ["A", "O"], "columns": ["O", "A"], "counts": [[1, 2], [3, 4]]}
    two = {"rows": ["A"], "columns": ["A", "B"], "counts": [[10, 20]]}
    names, counts = scored.total_confusion([make_record(confusion=one), make_record(confusion=two)])
    assert names == ["A", "B", "O"]
    assert counts.tolist() == [[12, 20, 1], [0, 0, 0], [4, 0, 3]]
    with pytest.raises(RecordError, match="holds no confusion"):
        scored.total_confusion([make_record(confusion=None)])


def test_rare_classes_become_one():
    counts = np.array([[5, 1, 0, 0], [1, 1, 0, 0], [2, 0, 9, 1], [0, 1, 1, 1]])
    assert scored.merged_others(list("abcd"), counts, scored.most_confused(counts, 4))[0] == list(
        "abcd"
    )
    names, merged = scored.merged_others(list("abcd"), counts, scored.most_confused(counts, 3))
    assert names == ["a", "c", "2 others"]
    assert merged.tolist() == [[5, 0, 1], [2, 9, 1], [1, 1, 3]]
