"""Gold and random predictions for every metric, by what it consumes."""

import numpy as np

from probekit.metrics import ROW_SCORES, AnyGold, Gold, LossGold, Metric, ValueGold, encode_gold

TAGS = ("O", "B-PER", "I-PER", "B-LOC")
LENGTHS = (3, 0, 5, 1, 12)
ROWS = sum(LENGTHS)


def tags_and_random(seed: int, classes: tuple[str, ...] = TAGS) -> tuple[Gold, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = [[classes[i] for i in rng.integers(0, len(classes), n)] for n in LENGTHS]
    return encode_gold(labels, classes), rng.integers(0, len(classes), ROWS)


def values_and_random(seed: int) -> tuple[ValueGold, np.ndarray]:
    """Values with ties, on either side."""
    rng = np.random.default_rng(seed)
    bounds = np.cumsum([0, *LENGTHS])
    return ValueGold(rng.integers(0, 6, ROWS) / 2, bounds), rng.integers(0, 9, ROWS) / 3


def random_row_scores(n: int, seed: int, unseen: float = 0.2) -> np.ndarray:
    """Return what random probabilities of three classes score, some on a class that is unseen."""
    rng = np.random.default_rng(seed)
    p, gold = rng.dirichlet(np.ones(3), n), rng.integers(0, 3, n)
    new = rng.random(n) < unseen
    found = np.empty(n, ROW_SCORES)
    found["right"] = (p.argmax(1) == gold) & ~new
    found["confidence"] = p.max(1)
    found["loss"] = np.where(new, np.nan, -np.log(p[np.arange(n), gold]))
    one_hot = np.eye(3)[gold] * ~new[:, None]
    found["brier"] = np.square(p - one_hot).sum(1) + new
    return found


def gold_and_random(metric: type[Metric], seed: int) -> tuple[AnyGold, np.ndarray]:
    if metric.consumes == "values":
        return values_and_random(seed)
    if metric.consumes == "losses":
        return LossGold(ROWS), np.random.default_rng(seed).exponential(size=ROWS)
    if metric.consumes == "probabilities":
        return LossGold(ROWS), random_row_scores(ROWS, seed)
    return tags_and_random(seed, ("0", "1") if metric.name == "f1" else TAGS)


def best_prediction(gold: AnyGold, metric: type[Metric]) -> np.ndarray:
    if metric.consumes == "probabilities":
        sure = np.zeros(ROWS, ROW_SCORES)
        sure["right"] = sure["confidence"] = 1
        return sure
    if isinstance(gold, LossGold):
        return np.zeros(gold.n_rows)
    return gold.ids if isinstance(gold, Gold) else gold.values
