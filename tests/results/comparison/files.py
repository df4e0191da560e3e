"""Records with side files of made-up predictions, as training would leave them."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from probekit.metrics import METRICS, Gold, LossGold, ValueGold
from probekit.results import Record, append_record
from probekit.results.comparison.resampling import Bootstrap, Estimate, Groups
from probekit.results.predictions import About, Predicted, write_predicted
from tests.results.samples import make_record

LENGTHS = np.random.default_rng(0).integers(1, 8, 60)
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
IDS = tuple(f"test-{n}" for n in range(len(LENGTHS)))
TAGS = ("O", "B-PER", "I-PER", "B-LOC")


def classes(right: float, seed: int, names=TAGS, gold_seed: int = 0) -> Predicted:
    """Return predictions of which about a share ``right`` is right."""
    gold = np.random.default_rng(gold_seed).integers(0, len(names), OFFSETS[-1])
    random = np.random.default_rng(seed + 100)
    guess = random.integers(0, len(names), len(gold))
    predicted = np.where(random.random(len(gold)) < right, gold, guess)
    return Predicted(
        ids=IDS, offsets=OFFSETS, content="classes", predicted=predicted, gold=gold, names=names
    )


def grouped(found: Predicted, numbers, name: str = "document", prefix: str = "d") -> Predicted:
    """Return predictions of sentences that are of the groups of these numbers."""
    return replace(found, groups=tuple(f"{prefix}{n}" for n in numbers), grouped_by=name)


def values(noise: float, seed: int) -> Predicted:
    """Return predicted values with some noise."""
    gold = np.random.default_rng(0).normal(size=OFFSETS[-1])
    predicted = gold + np.random.default_rng(seed + 100).normal(0, noise, len(gold))
    return Predicted(ids=IDS, offsets=OFFSETS, content="values", predicted=predicted, gold=gold)


def losses(mean: float, seed: int) -> Predicted:
    """Return losses of some mean."""
    found = np.random.default_rng(seed + 100).exponential(mean, OFFSETS[-1])
    return Predicted(ids=IDS, offsets=OFFSETS, content="losses", predicted=found, gold=None)


def bootstrap(groups: Groups, difference, samples: int, seed: int = 0) -> Estimate:
    """Return the estimate of one statistic of samples of sentences."""
    drawn = Bootstrap(samples=samples, seed=seed)
    return drawn.estimates(groups, lambda times: difference(times)[:, None])[0]


def score(found: Predicted, metric: str) -> float:
    """Return the score of predictions."""
    gold = {
        "classes": lambda: Gold(found.gold, found.offsets, found.names),
        "values": lambda: ValueGold(found.gold, found.offsets),
        "losses": lambda: LossGold(len(found.predicted)),
    }[found.content]()
    return METRICS[metric](gold).score(found.predicted)[metric]


def add_run(
    file: Path, head: str, seed: int, found: Predicted, metric: str = "span-f1", **changes
) -> Record:
    """Append a record to a results file, with a side file beside it."""
    key = changes.pop("key", f"{head}-{seed}-{file.stem}")
    side = file.parent / f"{file.stem}-predictions" / f"{key}.parquet"
    names = found.names
    about = About(key=key, metric=metric, labels_fingerprint="ab" * 32, classes=names)
    write_predicted(side, about, {"dev": found, "test": found})
    value = score(found, metric)
    outcome = {"eval_score": value, "test_score": value, "predictions": str(side), "key": key}
    record = make_record(head, seed, metric=metric, **outcome | changes)
    append_record(file, record)
    return record
