"""The contract of metrics as checks."""

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from jaxtyping import Int64, Shaped

from probekit.errors import OptionError
from probekit.metrics.class_metrics import ROW_SCORES
from probekit.metrics.contract import (
    AnyGold,
    Consumes,
    Gold,
    LabelSets,
    LossGold,
    Metric,
    ValueGold,
    encode_gold,
)
from probekit.testing.promises import Check, Contract, demand, demand_texts

TAGS = ("O", "B-PER", "I-PER", "B-LOC")
LENGTHS = (3, 0, 5, 1, 12)
"""Rows of each example; the second one has none."""
ROWS = sum(LENGTHS)
OFFSETS = np.cumsum([0, *LENGTHS])

Predictions = Shaped[np.ndarray, " rows"]


def random_row_scores(n: int, seed: int, unseen: float = 0.2) -> Predictions:
    """Return what random probabilities of three classes score, some on a class that is unseen."""
    rng = np.random.default_rng(seed)
    p, gold = rng.dirichlet(np.ones(3), n), rng.integers(0, 3, n)
    new = rng.random(n) < unseen
    scores = np.empty(n, ROW_SCORES)
    scores["right"] = (p.argmax(1) == gold) & ~new
    scores["confidence"] = p.max(1)
    scores["loss"] = np.where(new, np.nan, -np.log(p[np.arange(n), gold]))
    one_hot = np.eye(3)[gold] * ~new[:, None]
    scores["brier"] = np.square(p - one_hot).sum(1) + new
    return scores


def sample_case(metric: type[Metric], seed: int) -> tuple[AnyGold, Predictions]:
    """Return a gold side and random predictions; of two classes where a metric takes no more."""
    rng = np.random.default_rng(seed)
    if metric.consumes == "values":
        gold = ValueGold(rng.integers(0, 6, ROWS) / 2, OFFSETS)  # with ties, on either side
        return gold, rng.integers(0, 9, ROWS) / 3
    if metric.consumes == "scores":
        matrix, scores = rng.random((ROWS, 3)) < 0.4, rng.integers(-9, 9, (ROWS, 3)) / 3
        return LabelSets(matrix, OFFSETS, TAGS[:3]), scores
    if metric.consumes == "losses":
        return LossGold(ROWS, OFFSETS), rng.exponential(size=ROWS)
    if metric.consumes == "probabilities":
        return LossGold(ROWS, OFFSETS), random_row_scores(ROWS, seed)
    names = TAGS if _takes(metric, TAGS) else ("0", "1")
    labels = [[names[i] for i in rng.integers(0, len(names), n)] for n in LENGTHS]
    return encode_gold(labels, names), rng.integers(0, len(names), ROWS)


def _takes(metric: type[Metric], names: tuple[str, ...]) -> bool:
    try:
        metric(encode_gold([names], names))
    except OptionError:
        return False
    return True


def best_prediction(gold: AnyGold, metric: type[Metric]) -> Predictions:
    """Return the predictions that are all right."""
    if metric.consumes == "probabilities":
        sure = np.zeros(ROWS, ROW_SCORES)
        sure["right"] = sure["confidence"] = 1
        return sure
    if isinstance(gold, LabelSets):
        return np.where(gold.matrix, 1.0, -1.0)
    if isinstance(gold, LossGold):
        return np.zeros(gold.n_rows)
    return gold.ids if isinstance(gold, Gold) else gold.values


def _score(metric: type[Metric], gold: AnyGold, predicted: Predictions) -> float:
    return metric(gold).score(predicted)[metric.name]


def _score_of(
    metric: type[Metric],
    gold: AnyGold,
    predicted: Predictions,
    examples: Int64[np.ndarray, " drawn"],
) -> float:
    """Return the score of some examples by themselves, each as often as it is named."""
    rows = np.concatenate([np.arange(OFFSETS[e], OFFSETS[e + 1]) for e in examples])
    bounds = np.cumsum([0, *(LENGTHS[e] for e in examples)])
    of_rows = [name for name in ("ids", "matrix", "values") if hasattr(gold, name)]
    parts: dict[str, Any] = {name: getattr(gold, name)[rows] for name in of_rows}
    if isinstance(gold, LossGold):
        parts = {"n_rows": len(rows)}
    part = replace(gold, offsets=bounds, **parts)
    return _score(metric, part, predicted[rows])


def describes_itself(metric: type[Metric]) -> None:
    """It states its name, text and summary, and what it scores."""
    demand_texts(metric, "name", "text", "summary")
    known = get_args(Consumes)
    demand(metric.consumes in known, f"consumes is {metric.consumes!r}, none of {', '.join(known)}")


def prefers_what_is_right(metric: type[Metric]) -> None:
    """Perfect predictions score better than random ones, in the direction of its scale."""
    for seed in range(5):
        gold, predicted = sample_case(metric, seed)
        best = _score(metric, gold, best_prediction(gold, metric))
        other = _score(metric, gold, predicted)
        better = metric.scale.sign * best > metric.scale.sign * other
        demand(better, f"all right scores {best:g}, random predictions {other:g}")


def puts_its_score_first(metric: type[Metric]) -> None:
    """Scores are finite floats, the main one first."""
    for seed in range(5):
        gold, predicted = sample_case(metric, seed)
        scores = metric(gold).score(predicted)
        first = next(iter(scores), None)
        demand(first == metric.name, f"the first score is {first!r}, its name {metric.name!r}")
        plain = all(type(score) is float and math.isfinite(score) for score in scores.values())
        demand(plain, f"scores are {scores}")


def keeps_no_state(metric: type[Metric]) -> None:
    """Equal predictions score the same, whatever was scored in between."""
    gold, predicted = sample_case(metric, 1)
    scorer = metric(gold)
    first = scorer.score(predicted)
    scorer.score(best_prediction(gold, metric))
    demand(scorer.score(predicted) == first, "the score changed")


def counts_unseen_labels_as_errors(metric: type[Metric]) -> None:
    """A label that train lacks counts as an error, since no head can predict it."""
    if metric.consumes == "classes" and _takes(metric, TAGS):
        gold = encode_gold([["B-PER", "B-NEW", "B-LOC"]], TAGS)
        wrong, right = (_score(metric, gold, np.array([1, label, 3])) for label in (1, 4))
        better = metric.scale.sign * right > metric.scale.sign * wrong
        demand(better, f"missed it scores {wrong:g}, else {right:g}")


def resamples_as_it_scores(metric: type[Metric]) -> None:
    """A resample scores what its examples score by themselves; without rows, a finite number."""
    n, rng = len(LENGTHS), np.random.default_rng(3)
    gold, predicted = sample_case(metric, 2)
    resample = metric(gold).resampler(predicted)
    draws = [rng.integers(0, n, n - 1) for _ in range(10)]
    for chosen in (np.arange(n), *(np.append(drawn, 4) for drawn in draws)):  # 4 has rows
        expected = _score_of(metric, gold, predicted, chosen)
        (score,) = resample(np.bincount(chosen, minlength=n)[None].astype(np.float64))
        close = math.isclose(score, expected, rel_tol=1e-6, abs_tol=1e-9)
        demand(close, f"examples {chosen.tolist()} score {score}, by themselves {expected}")
    only = np.zeros((2, n))
    only[0, 1] = only[1, 3] = 5  # no row, and one
    finite = bool(np.isfinite(resample(only)).all())
    demand(finite, "a sample without rows, or of one, is not finite")


def leaves_out_examples(metric: type[Metric]) -> None:
    """The score without an example is the score of the other examples."""
    gold, predicted = sample_case(metric, 5)
    every = range(len(LENGTHS))
    for left, score in zip(every, metric(gold).left_out(predicted), strict=True):
        expected = _score_of(metric, gold, predicted, np.delete(every, left))
        close = math.isclose(score, expected, rel_tol=1e-6, abs_tol=1e-9)
        demand(close, f"without example {left} it scores {score}, the others {expected}")


METRIC_CHECKS: tuple[Check[type[Metric]], ...] = (
    describes_itself, prefers_what_is_right, puts_its_score_first, keeps_no_state,
    counts_unseen_labels_as_errors, resamples_as_it_scores,
    leaves_out_examples,
)  # fmt: skip
"""What holds for every metric."""


METRIC = Contract("metric", Metric, METRIC_CHECKS)
check_metric = METRIC.check
