"""Scores of resamples equal those of outside judges on the sentences that were drawn."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats
from seqeval.metrics import f1_score as seqeval_f1
from sklearn import metrics as sklearn

from probekit.metrics import METRICS, LabelSets, LossGold, Metric, ValueGold
from probekit.results.comparison.resampling import Bootstrap, Groups, counts
from probekit.testing import metric_checks
from probekit.testing.metric_checks import sample_case

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
LENGTHS = np.array(metric_checks.LENGTHS)
OFFSETS = metric_checks.OFFSETS


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


OF_LABEL = {
    "auroc": sklearn.roc_auc_score,
    "average-precision": sklearn.average_precision_score,
    "partial-auroc": partial(sklearn.roc_auc_score, max_fpr=0.1),
    "recall-at-1-fpr": recall_at_one_percent,
}
OF_ROWS = {
    "accuracy": sklearn.accuracy_score,
    "micro-f1": partial(sklearn.f1_score, average="micro"),
    "macro-f1": partial(sklearn.f1_score, average="macro"),
    "f1": partial(sklearn.f1_score, zero_division=0),
    "matthews": sklearn.matthews_corrcoef,
    "squared-error": sklearn.mean_squared_error,
    "spearman": lambda gold, found: np.nan_to_num(stats.spearmanr(gold, found).statistic),
    "perplexity": lambda _, found: math.exp(found.mean()),
    "loss": lambda _, found: np.nanmean(found["loss"].astype(float)),
    "brier": lambda _, found: found["brier"].astype(float).mean(),
    "ece": lambda _, found: calibration_error(found),
}


def over_labels(name, gold, found):
    """The mean over the labels for which a score is defined."""
    some = [n for n in range(gold.shape[1]) if gold[:, n].any()]
    some = [n for n in some if name == "average-precision" or not gold[:, n].all()]
    none = METRICS[name].undefined
    return np.mean([OF_LABEL[name](gold[:, n], found[:, n]) for n in some] or [none])


def case_of(name, seed):
    """Gold labels and predictions of a split, and an outside judge of some of its examples."""
    gold, found = sample_case(METRICS[name], seed)
    kept = ("ids", "matrix", "values")
    truth = next((getattr(gold, part) for part in kept if hasattr(gold, part)), found)

    def judge(drawn):
        if name == "span-f1":
            sides = (
                [[gold.names[i] for i in side[OFFSETS[e] : OFFSETS[e + 1]]] for e in drawn]
                for side in (truth, found)
            )
            return seqeval_f1(*sides, zero_division=0)
        rows = np.concatenate([np.arange(OFFSETS[e], OFFSETS[e + 1]) for e in drawn])
        if name in OF_LABEL:
            return over_labels(name, truth[rows], found[rows])
        return OF_ROWS[name](truth[rows], found[rows])

    return gold, found, judge


@pytest.mark.parametrize("name", METRICS)
def test_equals_an_outside_judge_on_the_same_draws(name):
    gold, predicted, judge = case_of(name, 1)
    groups = Groups(len(LENGTHS))
    (block,) = Bootstrap(samples=100, seed=1).draws(groups)
    found = METRICS[name](gold).resampler(predicted)(counts(block, groups))
    for drawn, score in zip(block, found, strict=True):
        if LENGTHS[drawn].any():
            assert score == pytest.approx(judge(drawn), abs=1e-12)


def test_losses_without_bounds_are_an_example_each():
    losses = np.array([1.0, 2.0, 4.0])
    scorer = METRICS["perplexity"](LossGold(3))
    found = scorer.resampler(losses)(np.array([[1.0, 1, 1], [3, 0, 0]]))
    assert found == pytest.approx([math.exp(7 / 3), math.exp(1)])


def test_predictions_that_are_no_numbers_have_no_rank_correlation():
    scorer = METRICS["spearman"](ValueGold(np.arange(3.0), np.arange(4)))
    assert scorer.resampler(np.array([0, np.nan, 1]))(np.ones((2, 3))).tolist() == [0, 0]


@pytest.mark.parametrize("name", METRICS)
def test_without_each_sentence_equals_an_outside_judge(name, monkeypatch):
    monkeypatch.setattr("probekit.metrics.contract._AT_ONCE", 3 * len(LENGTHS))
    gold, predicted, judge = case_of(name, 0)
    scorer = METRICS[name](gold)
    every = np.arange(len(LENGTHS))
    expected = [judge(np.delete(every, left)) for left in every]
    assert scorer.left_out(predicted) == pytest.approx(expected)
    # as every metric does that gives no shorter way
    assert Metric.left_out(scorer, predicted) == pytest.approx(expected)


@pytest.mark.parametrize("ties", [2, 5, 1000])
@pytest.mark.parametrize("name", ["partial-auroc", "recall-at-1-fpr"])
def test_of_many_rows_scores_at_few_false_positives_are_scikit_learns(name, ties):
    random = np.random.default_rng(ties)
    gold = random.random(3000) < 0.3
    found = np.round((random.normal(size=3000) + 1.5 * gold) * ties) / ties
    scorer = METRICS[name](LabelSets(gold[:, None], np.arange(3001), ("a",)))
    assert scorer.score(found[:, None])[name] == pytest.approx(
        OF_LABEL[name](gold, found), abs=1e-12
    )
