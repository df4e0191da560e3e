"""Metrics of values, losses and probabilities, against SciPy, scikit-learn and by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sklearn
from torch import Tensor

from probekit.errors import OptionError
from probekit.metrics import (
    METRICS,
    OF_PROBABILITIES,
    ROW_SCORES,
    LossGold,
    Perplexity,
    Spearman,
    SquaredError,
    ValueGold,
)
from probekit.metrics.number_metrics import ENDLESS, ranks
from probekit.probe.decoders.linear import Linear
from probekit.train.scoring import RowProbabilities, assess

values = st.floats(-1e3, 1e3).map(lambda x: round(x, 2)) | st.integers(0, 5).map(float)


def prepared(gold: list[float] | np.ndarray):
    return Spearman(ValueGold(np.array(gold), np.arange(len(gold) + 1)))


@settings(max_examples=50)
@given(st.lists(st.tuples(values, values), min_size=3, max_size=40))
def test_equal_scipy(found: list[tuple[float, float]]) -> None:
    gold, predicted = np.array(found).T
    assert ranks(gold).tolist() == stats.rankdata(gold).tolist()
    if min(len(set(gold)), len(set(predicted))) == 1:
        return  # SciPy gives NaN, with a warning
    scores = prepared(gold).score(predicted)
    assert scores["spearman"] == pytest.approx(stats.spearmanr(gold, predicted)[0], abs=1e-9)
    assert scores["pearson"] == pytest.approx(stats.pearsonr(gold, predicted)[0], abs=1e-9)


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ([1.0, 2.0, 3.0], [0.1, 0.1, 0.1]), ([0.1, 0.1, 0.1], [1.0, 2.0, 3.0]),
        ([1.0, 2.0, 3.0], [1.0, math.nan, 3.0]), ([1.0, 2.0, 3.0], [1.0, math.inf, 3.0]),
        ([1.0], [2.0]), ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]),
    ],
)  # fmt: skip
def test_no_correlation_to_speak_of(gold: list[float], predicted: list[float]) -> None:
    scores = prepared(gold).score(np.array(predicted))
    assert scores == {"spearman": 0.0, "pearson": 0.0}


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_extreme_values(scale: float) -> None:
    gold = np.array([0.0, 1.0, 2.0, 4.0])
    scores = prepared(gold).score(gold * scale)
    assert scores == {"spearman": pytest.approx(1), "pearson": pytest.approx(1)}


def test_single_precision_counts_as_values_and_classes_do_not() -> None:
    gold = np.array([0.5, 1.0, 2.5])
    scores = prepared(gold).score(gold.astype(np.float32))
    assert scores["pearson"] == pytest.approx(1)
    with pytest.raises(OptionError, match="int64"):
        prepared(gold).score(np.array([0, 1, 2]))


def test_perplexity_by_hand() -> None:
    losses = np.log([2.0, 8.0])
    scores = Perplexity(LossGold(2)).score(losses)
    assert scores == {"perplexity": pytest.approx(4), "loss": pytest.approx(math.log(4))}
    uniform = Perplexity(LossGold(7)).score(np.full(7, math.log(50_000), np.float32))
    assert uniform["perplexity"] == pytest.approx(50_000, rel=1e-5)


@pytest.mark.parametrize("loss", [710.0, math.inf, math.nan])
def test_a_diverged_run_has_a_finite_score(loss: float) -> None:
    scorer, losses = Perplexity(LossGold(2)), np.array([1.0, 2 * loss])
    scores = scorer.score(losses)
    assert scores["perplexity"] == ENDLESS and math.isfinite(ENDLESS**2)
    assert math.isfinite(scores["loss"])
    assert scorer.resampler(losses)(np.ones((2, 2))).tolist() == pytest.approx([ENDLESS] * 2)


def rows_of(logits: Tensor, gold: Tensor) -> np.ndarray:
    """What a linear decoder's logits score."""
    decoder = Linear().build(2, logits.shape[1], torch.Generator())
    offsets = torch.tensor([0, len(logits)])
    block = assess(decoder, logits, gold, offsets, predicted=logits.argmax(1), kept=False)
    return RowProbabilities.joined([block]).scores


def score(name: str, rows: np.ndarray) -> float:
    return METRICS[name](LossGold(len(rows))).score(rows)[name]


def drawn(n_classes: int, n_rows: int = 400, seed: int = 0) -> tuple[Tensor, Tensor, np.ndarray]:
    random = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n_rows, n_classes, generator=random)
    gold = torch.randint(0, n_classes, (n_rows,), generator=random)
    return logits, gold, logits.double().softmax(1).numpy()


def calibration_error(p: np.ndarray, gold: np.ndarray) -> float:
    """The definition, bin after bin (Guo et al. 2017)."""
    confidence, right = p.max(1), p.argmax(1) == gold
    total = 0.0
    for low, high in zip(np.arange(15) / 15, np.arange(1, 16) / 15, strict=True):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            gap = abs(right[inside].mean() - confidence[inside].mean())
            total += inside.mean() * gap
    return total


@pytest.mark.parametrize("n_classes", [2, 3, 17])
def test_equal_the_definitions(n_classes: int) -> None:
    logits, gold, p = drawn(n_classes)
    rows = rows_of(logits, gold)
    expected = sklearn.log_loss(gold, p, labels=range(n_classes))
    assert score("loss", rows) == pytest.approx(expected, rel=1e-6)
    one_hot = np.eye(n_classes)[gold]
    assert score("brier", rows) == pytest.approx(((p - one_hot) ** 2).sum(1).mean(), rel=1e-6)
    assert score("ece", rows) == pytest.approx(calibration_error(p, gold.numpy()), rel=1e-5)


def test_bins_end_where_they_should() -> None:
    """(0.6, 2/3] is a bin: a right row of 0.6 and a wrong one above it do not make up for each
    other, and two in one bin do.
    """
    rows = np.zeros(2, ROW_SCORES)
    rows["confidence"], rows["right"] = (0.59, 0.61), (True, False)
    assert score("ece", rows) == pytest.approx((0.41 + 0.61) / 2)
    rows["confidence"] = (0.61, 0.62)
    assert score("ece", rows) == pytest.approx(abs(0.61 + 0.62 - 1) / 2)


def test_a_class_that_train_did_not_have() -> None:
    """It has no place in the loss, and is an error in the other two."""
    logits, gold, p = drawn(3, n_rows=6)
    gold[2] = 4
    rows = rows_of(logits, gold)
    others = [0, 1, 3, 4, 5]
    found = METRICS["loss"](LossGold(6)).score(rows)
    expected = sklearn.log_loss(gold[others], p[others], labels=range(3))
    assert found == {"loss": pytest.approx(expected, rel=1e-6), "unseen rows": 1.0}
    assert not rows["right"][2]
    assert rows["brier"][2] == pytest.approx((p[2] ** 2).sum() + 1)
    alone = rows_of(logits[2:3], gold[2:3])
    assert METRICS["loss"](LossGold(1)).score(alone)["loss"] == ENDLESS


def test_one_class_and_one_row() -> None:
    rows = rows_of(torch.tensor([[3.0]]), torch.tensor([0]))
    assert [score(metric.name, rows) for metric in OF_PROBABILITIES] == [0, 0, 0]


def test_huge_logits_are_no_infinite_loss() -> None:
    rows = rows_of(torch.tensor([[1e4, 0.0], [1e4, 0.0]]), torch.tensor([1, 0]))
    assert rows["loss"].tolist() == [1e4, 0]
    assert score("loss", rows) == 5000
    assert (score("brier", rows), score("ece", rows)) == (1, 0.5)


def test_small_distances_are_not_lost_in_noise() -> None:
    """Of p = 1 - 1e-9 the Brier score is about 2e-18, not the 1e-16 of rounded ones."""
    logit = math.log(1e9)
    rows = rows_of(torch.tensor([[logit, 0.0]]), torch.tensor([0]))
    assert rows["brier"][0] == pytest.approx(2e-18, rel=1e-3)
    assert rows["loss"][0] == pytest.approx(1e-9, rel=1e-3)


@pytest.mark.parametrize("logit", [math.nan, math.inf])
def test_logits_that_are_no_numbers_score_the_worst(logit: float) -> None:
    rows = rows_of(torch.tensor([[logit, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]))
    worst = {"loss": ENDLESS, "ece": 1.0, "brier": 2.0}
    for metric in OF_PROBABILITIES:
        scorer = metric(LossGold(2))
        assert scorer.score(rows) == {metric.name: worst[metric.name]}
        assert scorer.resampler(rows)(np.ones((3, 2))).tolist() == [worst[metric.name]] * 3


def test_squared_error_without_end() -> None:
    scorer = SquaredError(ValueGold(np.array([1.0, 2.0]), np.array([0, 1, 2])))
    assert scorer.score(np.array([2.0, 4.0])) == {"squared-error": 2.5}
    assert scorer.score(np.array([math.inf, 0.0])) == {"squared-error": ENDLESS}
    assert scorer.resampler(np.array([math.nan, 0.0]))(np.ones((1, 2))).tolist() == [ENDLESS]


def test_too_few_rows() -> None:
    with pytest.raises(OptionError, match="expected 3 predictions"):
        METRICS["ece"](LossGold(3)).score(np.zeros(2, ROW_SCORES))
