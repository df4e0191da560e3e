"""Scores of resamples equal those of outside judges on the sentences that were drawn."""

import math

import numpy as np
import pytest
from scipy import stats
from seqeval.metrics import f1_score as seqeval_f1
from sklearn import metrics as sklearn

from probekit.metrics import METRICS, Gold, LabelSets, LossGold, Metric, ValueGold
from probekit.results.comparison.resampling import Bootstrap, Groups, counts
from probekit.testing.metric_checks import random_row_scores

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
LENGTHS = np.array([3, 1, 0, 5, 2, 7, 1, 4])
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
N_ROWS = int(OFFSETS[-1])
NAMES = {"f1": ("0", "1"), "span-f1": TAGS}


def calibration_error(rows):
    """The calibration error, bin after bin."""
    bins = np.digitize(rows["confidence"].astype(float), np.arange(1, 15) / 15, right=True)
    gaps = [
        abs(rows["confidence"][bins == b].astype(float).sum() - rows["right"][bins == b].sum())
        for b in range(15)
    ]
    return sum(gaps) / len(rows)


def recall_at_one_percent(gold, found):
    """The best point of scikit-learn's ROC curve with at most 1 % false positives."""
    false, true, _ = sklearn.roc_curve(gold, found, drop_intermediate=False)
    return true[false <= 0.01].max()


def _case(name, seed):
    """Gold labels and predictions of a split, and an outside judge of some of its rows."""
    random = np.random.default_rng(seed)
    if METRICS[name].consumes == "losses":
        losses = random.exponential(2, N_ROWS)
        return LossGold(N_ROWS, OFFSETS), losses, lambda rows, _: math.exp(losses[rows].mean())
    if METRICS[name].consumes == "probabilities":
        found = random_row_scores(N_ROWS, seed)
        judge = {
            "loss": lambda rows, _: np.nanmean(found["loss"][rows].astype(float)),
            "brier": lambda rows, _: found["brier"][rows].astype(float).mean(),
            "ece": lambda rows, _: calibration_error(found[rows]),
        }
        return LossGold(N_ROWS, OFFSETS), found, judge[name]
    if name == "squared-error":
        one, two = random.normal(size=(2, N_ROWS))
        return (
            ValueGold(one, OFFSETS),
            two,
            lambda rows, _: sklearn.mean_squared_error(one[rows], two[rows]),
        )
    if METRICS[name].consumes == "scores":
        matrix, scores = random.random((N_ROWS, 3)) < 0.5, random.integers(0, 9, (N_ROWS, 3)) / 3
        of_label = {
            "auroc": lambda gold, found: sklearn.roc_auc_score(gold, found),
            "average-precision": sklearn.average_precision_score,
            "partial-auroc": lambda gold, found: sklearn.roc_auc_score(gold, found, max_fpr=0.1),
            "recall-at-1-fpr": recall_at_one_percent,
        }[name]

        def judge_labels(rows, _):
            gold, found = matrix[rows], scores[rows]
            some = [n for n in range(3) if gold[:, n].any()]
            some = [n for n in some if name == "average-precision" or not gold[:, n].all()]
            none = METRICS[name].undefined
            return np.mean([of_label(gold[:, n], found[:, n]) for n in some] or [none])

        return LabelSets(matrix, OFFSETS, ("a", "b", "c")), scores, judge_labels
    if METRICS[name].consumes == "values":
        values = random.integers(0, 6, (2, N_ROWS)) / 2.0  # ties
        values[1] += values[0] * random.random()
        judge = lambda rows, _: np.nan_to_num(stats.spearmanr(*values[:, rows]).statistic)  # noqa: E731
        return ValueGold(values[0], OFFSETS), values[1], judge
    names = NAMES.get(name, ("a", "b", "c"))
    gold, found = random.integers(0, len(names), (2, N_ROWS))
    found = np.where(random.random(N_ROWS) < 0.5, gold, found)

    def judge(rows, drawn):
        if name == "span-f1":
            sides = (
                [[names[i] for i in side[OFFSETS[e] : OFFSETS[e + 1]]] for e in drawn]
                for side in (gold, found)
            )
            return seqeval_f1(*sides, zero_division=0)
        score = {
            "accuracy": sklearn.accuracy_score,
            "micro-f1": lambda g, p: sklearn.f1_score(g, p, average="micro"),
            "macro-f1": lambda g, p: sklearn.f1_score(g, p, average="macro"),
            "f1": lambda g, p: sklearn.f1_score(g, p, zero_division=0),
            "matthews": sklearn.matthews_corrcoef,
        }[name]
        return score(gold[rows], found[rows])

    return Gold(gold, OFFSETS, names), found, judge


@pytest.mark.parametrize("name", METRICS)
def test_equals_an_outside_judge_on_the_same_draws(name):
    gold, predicted, judge = _case(name, 1)
    groups = Groups(len(LENGTHS))
    (block,) = Bootstrap(samples=100, seed=1).draws(groups)
    found = METRICS[name](gold).resampler(predicted)(counts(block, groups))
    for drawn, score in zip(block, found, strict=True):
        rows = np.concatenate([np.arange(OFFSETS[e], OFFSETS[e + 1]) for e in drawn])
        if len(rows):
            assert score == pytest.approx(judge(rows, drawn), abs=1e-12)


def test_losses_without_bounds_are_an_example_each():
    losses = np.array([1.0, 2.0, 4.0])
    scorer = METRICS["perplexity"](LossGold(3))
    found = scorer.resampler(losses)(np.array([[1.0, 1, 1], [3, 0, 0]]))
    assert found == pytest.approx([math.exp(7 / 3), math.exp(1)])


def test_predictions_that_are_no_numbers_have_no_rank_correlation():
    scorer = METRICS["spearman"](ValueGold(np.arange(3.0), np.arange(4)))
    assert scorer.resampler(np.array([0, np.nan, 1]))(np.ones((2, 3))).tolist() == [0, 0]


@pytest.mark.parametrize("loss", [math.inf, math.nan])
def test_losses_without_end_are_the_same_in_every_sample(loss):
    scorer = METRICS["perplexity"](LossGold(3))
    losses = np.array([1.0, loss, 4.0])
    expected = scorer.score(losses)["perplexity"]
    assert scorer.resampler(losses)(np.ones((2, 3))).tolist() == [expected] * 2


@pytest.mark.parametrize("name", METRICS)
def test_without_each_sentence_equals_an_outside_judge(name, monkeypatch):
    monkeypatch.setattr("probekit.metrics.contract._AT_ONCE", 3 * len(LENGTHS))
    gold, predicted, judge = _case(name, 0)
    scorer = METRICS[name](gold)
    expected = []
    for left in range(len(LENGTHS)):
        drawn = np.delete(np.arange(len(LENGTHS)), left)
        rows = np.concatenate([np.arange(OFFSETS[e], OFFSETS[e + 1]) for e in drawn])
        expected.append(judge(rows, drawn))
    assert scorer.left_out(predicted) == pytest.approx(expected)
    # as every metric does that gives no shorter way
    assert Metric.left_out(scorer, predicted) == pytest.approx(expected)


@pytest.mark.parametrize("ties", [2, 5, 1000])
@pytest.mark.parametrize("name", ["partial-auroc", "recall-at-1-fpr"])
def test_of_many_rows_scores_at_few_false_positives_are_scikit_learns(name, ties):
    random = np.random.default_rng(ties)
    gold = random.random(3000) < 0.3
    found = np.round((random.normal(size=3000) + 1.5 * gold) * ties) / ties
    judge = {
        "partial-auroc": lambda gold, found: sklearn.roc_auc_score(gold, found, max_fpr=0.1),
        "recall-at-1-fpr": recall_at_one_percent,
    }[name]
    scorer = METRICS[name](LabelSets(gold[:, None], np.arange(3001), ("a",)))
    assert scorer.score(found[:, None])[name] == pytest.approx(judge(gold, found), abs=1e-12)
