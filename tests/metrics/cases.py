"""Random tags and predictions of them."""

import numpy as np

from probekit.metrics import Gold, encode_gold
from probekit.testing.metric_checks import LENGTHS, ROWS, TAGS


def tags_and_random(seed: int, classes: tuple[str, ...] = TAGS) -> tuple[Gold, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = [[classes[i] for i in rng.integers(0, len(classes), n)] for n in LENGTHS]
    return encode_gold(labels, classes), rng.integers(0, len(classes), ROWS)
