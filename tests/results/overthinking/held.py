"""Records of probes at every depth whose predictions are held in memory, not in side files.

`HELD` stands for the disk: the fixture ``held`` makes runs read it, so that a test says what a
side file holds whatever its format.
"""

import itertools
from pathlib import Path

import numpy as np

from probekit.metrics import METRICS, Gold
from probekit.results.comparison import pairing
from probekit.results.predictions import About, Predicted
from tests.results.samples import make_record

HELD = {}
COUNTER = itertools.count()
NAMES = ("no", "yes")


def read_held(path, **options):
    """Return what `HELD` holds; a path that it does not hold is a file."""
    return HELD[path] if path in HELD else pairing_reads(path, **options)


pairing_reads = pairing.read_predicted


def probabilities_of(predicted, n_classes, confidence=0.8):
    """Return rows of probabilities with ``confidence`` (one, or one per row) for what is said."""
    confidence = np.broadcast_to(confidence, predicted.shape)
    rest = (1 - confidence) / (n_classes - 1)
    rows = np.repeat(rest[:, None], n_classes, axis=1)
    rows[np.arange(len(rows)), predicted] = confidence
    return rows.astype(np.float16)


def add(
    predicted,
    gold,
    *,
    names=NAMES,
    lengths=None,
    confidence=0.8,
    test=None,
    documents=(),
    **options,
):
    """Return the record of one run that predicted ``predicted`` of dev, and ``test`` of test.

    ``test`` is (predicted, gold), of as many rows; None is no test split. ``documents`` is the
    number of each sentence's document.
    """
    metric = options.setdefault("metric", "accuracy")
    lengths = np.ones(len(gold), int) if lengths is None else lengths
    splits = {"dev": (predicted, gold)} | ({} if test is None else {"test": test})
    path = Path(f"/held/{next(COUNTER)}.parquet")
    found, scores = {}, {}
    for split, (guess, true) in splits.items():
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        ids = tuple(f"{split}-{n}" for n in range(len(lengths)))
        words = np.split(np.array([f"w{n}" for n in range(len(true))]), offsets[1:-1])
        tagged = len(lengths) != len(true)
        found[split] = Predicted(
            ids=ids,
            offsets=offsets,
            content="classes",
            predicted=guess,
            gold=true,
            names=names,
            groups=tuple(f"d{n}" for n in documents),
            grouped_by="document" if len(documents) else "",
            texts=tuple(tuple(w.tolist()) if tagged else str(w[0]) for w in words),
            probabilities=None
            if confidence is None
            else probabilities_of(guess, len(names), confidence),
        )
        scores[split] = METRICS[metric](Gold(true, offsets, names)).score(guess)[metric]
    key = f"{next(COUNTER):064d}"
    HELD[path] = (About(key=key, metric=metric, labels_fingerprint="ab" * 32), found)
    values = {
        "head": "last", "task": "rte", "label": "label", "eval_score": scores["dev"],
        "eval_last": scores["dev"], "test_score": scores.get("test"), "predictions": str(path),
        "key": key,
    } | options  # fmt: skip
    return make_record(**values)


def add_depths(probes, gold, *, seeds=1, tests=None, last=None, **options):
    """Return the records of a curve.

    Args:
        probes: by depth, what is predicted: (depths, rows), or (seeds, depths, rows).
        gold: the truth.
        seeds: seeds, where the predictions are one for all.
        tests: (predictions of test like ``probes``, gold of test).
        last: confidence of the last depth, one per row; None is that of all others.
        options: of `add` and `make_record`.
    """
    probes = _by_seed(probes, seeds)
    tested = None if tests is None else _by_seed(tests[0], seeds)
    n_seeds, n_depths = probes.shape[:2]
    records = []
    for seed in range(n_seeds):
        for depth in range(n_depths):
            own = {"depth": depth, "seed": seed, "seen": {"blocks": n_depths - 1}} | options
            if last is not None and depth == n_depths - 1:
                own["confidence"] = last
            test = None if tests is None else (tested[seed, depth], tests[1])
            records.append(add(probes[seed, depth], gold, test=test, **own))
    return records


def _by_seed(predicted, seeds):
    predicted = np.asarray(predicted)
    return predicted if predicted.ndim == 3 else np.stack([predicted] * seeds)
