"""``--fit sae-probes`` against scikit-learn by hand, and that its dev score saw no dev."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from probekit import Location, TrainSpec, open_features, sweep
from probekit.errors import OptionError
from probekit.results.predictions import read_predicted
from tests.planted import MODEL
from tests.planted_texts import plant_texts

TASK = "glue/sst2"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    root = tmp_path_factory.mktemp("sae-probes")
    for split, count in (("train", 120), ("dev", 40), ("test", 150)):
        plant_texts(root, TASK, split, count=count)
    return Location(cache=root)


def run(cache, out, **options):
    given = {"head": "last", "pooling": "last", "fit": "sae-probes"} | options
    (record,) = sweep(
        TrainSpec(model=MODEL, task=TASK, **given), out=out, location=cache, predictions=True
    )
    return record


@pytest.mark.parametrize("layer", [1, 3])
def test_c_and_scores_are_those_of_the_protocol(cache, tmp_path, layer):
    record = run(cache, tmp_path / "runs.jsonl", depth=layer)
    rows = {}
    for split in ("train", "dev", "test"):
        x, y, _ = open_features(MODEL, TASK, location=cache).numpy(
            split, layer=layer, pooling="last"
        )
        rows[split] = x.astype(np.float64), np.array(y)
    (x, y), (x_dev, y_dev), (x_test, y_test) = rows.values()
    strengths = np.logspace(5, -5, 10)
    fits = [LogisticRegression(C=c, max_iter=1000).fit(x, y) for c in strengths]
    scores = [roc_auc_score(y_dev, fit.predict_proba(x_dev)[:, 1]) for fit in fits]
    best = int(np.argmax(scores))
    order = np.random.RandomState(42).permutation(len(y) + len(y_dev))
    both = np.concatenate([x, x_dev])[order], np.concatenate([y, y_dev])[order]
    last = LogisticRegression(C=strengths[best], max_iter=1000).fit(*both)
    assert record.diagnosis["strength"] == pytest.approx(1 / (strengths[best] * len(y)))
    assert record.diagnosis["strength_scores"] == pytest.approx(scores)
    margins = {"dev": fits[best].decision_function(x_dev), "test": last.decision_function(x_test)}
    for split, gold in (("dev", y_dev), ("test", y_test)):
        _, said = read_predicted(tmp_path / record.predictions)
        odds = said[split].odds[:, 1]
        assert odds == pytest.approx(margins[split], rel=1e-3, abs=1e-3)
        auc = roc_auc_score(gold, margins[split])
        assert record.scores[f"{split}/auroc"] == pytest.approx(auc, abs=1e-6)
    assert last.coef_ != pytest.approx(fits[best].coef_, rel=1e-3)  # so the two can be told apart


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"l2": 0.1}, "chooses C on dev"),
        ({"select": "cv:5"}, "chooses C on dev"),
        ({"shots": 4}, "fits all of train, and dev with it"),
        ({"decoder": "mlp"}, "fits a linear decoder"),
        ({"head": "p32"}, "trains values of its own"),
    ],
)
def test_what_it_cannot_fit_is_refused(cache, tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        run(cache, tmp_path / "runs.jsonl", **options)


def test_three_classes_are_refused(tmp_path):
    for split in ("train", "dev", "test"):
        plant_texts(tmp_path, "glue/mnli", split)
    spec = TrainSpec(model=MODEL, task="glue/mnli", head="last", pooling="last", fit="sae-probes")
    with pytest.raises(OptionError, match="fits two classes"):
        sweep(spec, out=tmp_path / "runs.jsonl", location=Location(cache=tmp_path))
