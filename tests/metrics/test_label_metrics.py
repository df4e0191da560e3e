"""F1 over labels and ranks of scores against scikit-learn; thresholds against a plain search."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score, roc_curve

from probekit.errors import OptionError
from probekit.metrics import (
    AUROC,
    METRICS,
    AveragePrecision,
    Gold,
    LabelSets,
    MacroF1,
    alarm_threshold,
    best_thresholds,
)

NAMES = ("a", "b", "c", "d")
CLOSE = {"rtol": 0, "atol": 1e-12}


def sets(seed, rows=60, ties=True):
    rng = np.random.default_rng(seed)
    matrix = rng.random((rows, len(NAMES))) < [0.5, 0.3, 0.1, 0.9]
    scores = rng.normal(size=matrix.shape) + matrix
    return LabelSets(matrix, np.arange(rows + 1), NAMES), np.round(scores, 1 if ties else 9)


@pytest.mark.parametrize("seed", range(5))
def test_sets_of_labels_score_as_in_scikit_learn(seed):
    gold, scores = sets(seed)
    expected = {
        "macro-f1": f1_score(gold.matrix, scores > 0, average="macro", zero_division=0),
        "micro-f1": f1_score(gold.matrix, scores > 0, average="micro"),
        "auroc": roc_auc_score(gold.matrix, scores, average="macro"),
        "average-precision": average_precision_score(gold.matrix, scores, average="macro"),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(METRICS[name](gold).score(scores)[name], value, **CLOSE)
    by_label = f1_score(gold.matrix, scores > 0, average=None, zero_division=0)
    found = MacroF1(gold).score(scores)
    np.testing.assert_allclose([found[f"f1/{name}"] for name in NAMES], by_label, **CLOSE)


@pytest.mark.parametrize("classes", [2, 4])
def test_rows_with_one_class_score_as_in_scikit_learn(classes):
    rng = np.random.default_rng(classes)
    ids, predicted = rng.integers(0, classes, (2, 80))
    p = rng.dirichlet(np.ones(classes), 80)
    gold = Gold(ids, np.arange(81), NAMES[:classes])
    odds = np.log(p / (1 - p))
    shown = p[:, 1] if classes == 2 else p
    expected = roc_auc_score(ids, shown, multi_class="ovr", average="macro")
    np.testing.assert_allclose(AUROC(gold).score(odds)["auroc"], expected, **CLOSE)
    expected = average_precision_score(ids, shown, average="macro")
    found = AveragePrecision(gold).score(odds)["average-precision"]
    np.testing.assert_allclose(found, expected, **CLOSE)
    found = MacroF1(gold).score(predicted)["macro-f1"]
    np.testing.assert_allclose(found, f1_score(ids, predicted, average="macro"), **CLOSE)


def test_a_class_that_does_not_occur_is_no_part_of_a_mean_over_classes():
    gold = Gold(np.array([0, 0, 2]), np.arange(4), NAMES)
    expected = f1_score([0, 0, 2], [0, 2, 2], average="macro")
    assert MacroF1(gold).score(np.array([0, 2, 2]))["macro-f1"] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["macro-f1", "micro-f1", "auroc", "average-precision"])
def test_a_resample_scores_what_its_texts_score(name):
    gold, scores = sets(3)
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 60, (20, 60))
    counts = np.stack([np.bincount(drawn, minlength=60) for drawn in draws]).astype(float)
    found = METRICS[name](gold).resampler(scores)(counts)
    for score, drawn in zip(found, draws, strict=True):
        alone = METRICS[name](LabelSets(gold.matrix[drawn], gold.offsets, NAMES))
        assert score == pytest.approx(alone.score(scores[drawn])[name], abs=1e-12)


def test_labels_without_a_text_are_left_out_of_ranks_and_score_no_f1():
    gold, scores = sets(0)
    matrix = gold.matrix.copy()
    matrix[:, 2], matrix[:, 3] = False, True
    gold = LabelSets(matrix, gold.offsets, NAMES)
    expected = roc_auc_score(matrix[:, :2], scores[:, :2])
    assert AUROC(gold).score(scores)["auroc"] == pytest.approx(expected, abs=1e-12)
    expected = average_precision_score(matrix[:, [0, 1, 3]], scores[:, [0, 1, 3]])
    found = AveragePrecision(gold).score(scores)["average-precision"]
    assert found == pytest.approx(expected, abs=1e-12)
    assert MacroF1(gold).score(scores)["f1/c"] == 0.0
    empty = LabelSets(np.zeros((2, 4), bool), np.arange(3), NAMES)
    assert AUROC(empty).score(scores[:2]) == {"auroc": 0.5}
    assert AveragePrecision(empty).score(scores[:2]) == {"average-precision": 0.0}


def test_a_label_that_no_head_predicts_is_missed_and_ranked_by_chance():
    gold, scores = sets(1)
    known = scores[:, :2]
    shown = np.hstack([known, np.full((60, 2), -1.0)])
    for name in ("macro-f1", "auroc", "average-precision"):
        metric = METRICS[name](gold)
        assert metric.score(known)[name] == metric.score(shown)[name]
    with pytest.raises(OptionError, match=r"at most 4 labels per row.*60, 5"):
        MacroF1(gold).score(np.zeros((60, 5)))


def test_thresholds_are_those_of_the_best_f1():
    for seed in range(5):
        gold, scores = sets(seed)
        gold.matrix[:, 2] = False
        found = best_thresholds(gold, scores)
        assert found[2] == 0.0
        for label in (0, 1, 3):
            column, has = scores[:, label], gold.matrix[:, label]
            cuts = np.append(np.unique(column) - 0.05, 9)
            best = max(f1_score(has, column > cut, zero_division=0) for cut in cuts)
            assert f1_score(has, column > found[label]) == pytest.approx(best)
            assert found[label] not in column


def test_scores_that_are_no_numbers_are_scored():
    gold, scores = sets(0)
    broken = np.full_like(scores, np.nan)
    for name in ("macro-f1", "auroc", "average-precision"):
        assert 0 <= METRICS[name](gold).score(broken)[name] <= 1
    assert np.isfinite(best_thresholds(gold, broken)).all()


@pytest.mark.parametrize("ties", [1, 4, 1000])
def test_the_threshold_is_the_lowest_with_few_false_positives(ties):
    random = np.random.default_rng(ties)
    has = random.random(2000) < 0.2
    scores = np.round((random.normal(size=2000) + 2 * has) * ties) / ties
    threshold = alarm_threshold(has, scores)
    above = scores > threshold
    false, true, _ = roc_curve(has, scores, drop_intermediate=False)
    allowed = false <= 0.01
    assert above[~has].mean() == pytest.approx(false[allowed].max())
    assert above[has].mean() == pytest.approx(true[allowed].max())
    assert not np.isin(threshold, scores)


def test_no_threshold_is_low_enough_where_the_highest_score_is_everybodys():
    assert alarm_threshold(np.array([True, False]), np.array([1.0, 1.0])) == np.inf
