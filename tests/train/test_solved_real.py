"""Depth curves of real models on real tasks, against scikit-learn at every strength."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from probekit import ExtractOptions, Location, TrainSpec, extract, open_features, product, sweep
from probekit.metrics import METRICS
from probekit.train.scoring import gold_of
from tests.tasks.real_files import DATA

MODELS = Path(os.environ.get("PROBEKIT_TEST_MODELS", "no-folder-was-named"))
SUBJECTS = {"minilm-l6": 1, "smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf": 6}
"""Real models, and the distance between the layers that are compared."""

TASKS = {
    "atis": ("atis", "intent", 900), "glue/sst2": ("glue/SST-2", None, 900),
    "glue/rte": ("glue/RTE", None, 900), "conll": ("conll2003", "ner", 120),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_depth_curve_is_scikit_learns(tmp_path, name, task):
    folder, label, limit = TASKS[task]
    if not (MODELS / name).exists() or not (DATA / folder).is_dir():
        pytest.skip("no real models or data: set PROBEKIT_TEST_MODELS and PROBEKIT_TEST_DATA")
    path, location = str(MODELS / name), Location(cache=tmp_path / "cache")
    extract(
        path, task, data=DATA / folder, splits=["train", "dev"], cache=location.cache,
        options=ExtractOptions(limit=limit),
    )  # fmt: skip
    spec = TrainSpec(model=path, task=task, label=label, head="last", select="dev")
    splits = open_features(path, task, label, location)
    depths = range(0, splits.manifest.n_blocks + 1, SUBJECTS[name])
    records = sweep(product(spec, {"depth": depths}), out=tmp_path / "r.jsonl", location=location)
    metric = METRICS[splits.metric]
    pooling = records[0].pooling
    train = splits.view("train", pooling=pooling, valid_only=True)
    dev = splits.view("dev", pooling=pooling)
    scorer = metric(gold_of(dev, metric))
    for record in records:
        assert record.diagnosis["converged"], record.depth
        x, z = (rows(view, record.depth) for view in (train, dev))
        scaler = StandardScaler().fit(x)
        for l2, found in zip(
            *map(record.diagnosis.get, ("strengths", "strength_scores")), strict=True
        ):
            judge = LogisticRegression(C=1 / (len(x) * l2), tol=1e-8, max_iter=20_000)
            judge.fit(scaler.transform(x), train.targets)
            expected = scorer.score(judge.predict(scaler.transform(z)))[metric.name]
            assert abs(found - expected) <= max(1.5 / dev.n_examples, 0.003), (record.depth, l2)


def rows(view, layer):
    """Return the rows of a layer in float64."""
    return np.asarray(view.array.read(torch.from_numpy(view.rows), (layer,))[:, 0].double())
