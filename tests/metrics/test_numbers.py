"""Metrics of values and losses, against SciPy and by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from probekit.errors import OptionError
from probekit.metrics import LossGold, Perplexity, Spearman, ValueGold
from probekit.metrics.number_metrics import ENDLESS, ranks

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
    scores = Perplexity(LossGold(2)).score(np.array([1.0, 2 * loss]))
    assert scores["perplexity"] == ENDLESS and math.isfinite(ENDLESS**2)
    assert math.isfinite(scores["loss"])
