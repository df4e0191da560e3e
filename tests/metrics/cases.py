"""Gold and random predictions for every metric, by what it consumes."""

import numpy as np

from probekit.metrics import AnyGold, Gold, LossGold, Metric, ValueGold, encode_gold

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


def gold_and_random(metric: type[Metric], seed: int) -> tuple[AnyGold, np.ndarray]:
    if metric.consumes == "values":
        return values_and_random(seed)
    if metric.consumes == "losses":
        return LossGold(ROWS), np.random.default_rng(seed).exponential(size=ROWS)
    return tags_and_random(seed, ("0", "1") if metric.name == "f1" else TAGS)


def best_prediction(gold: AnyGold) -> np.ndarray:
    if isinstance(gold, LossGold):
        return np.zeros(gold.n_rows)
    return gold.ids if isinstance(gold, Gold) else gold.values
