"""What notebooks show of features, entries and the outcome of a run."""

import pytest

import probekit
from probekit.features import Location, open_features
from probekit.results import Records
from probekit.store.entry import Entries
from tests.base.test_shown import OURS, Read
from tests.planted import LAYERS, MODEL, TASK, plant_all


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return plant_all(tmp_path_factory.mktemp("<b>cache"), sentences=20)


def cells(value):
    html = value._repr_html_()
    read = Read(html)
    assert read.tags <= OURS and not read.open and "<b>" not in html
    return read.cells


def test_features_and_entries_say_what_there_is(root):
    features = open_features(MODEL, TASK, "ner", Location(cache=root))
    found = cells(features)
    assert found[0] == "planted on conll" and "ner (tagging), scored by span-f1" in found
    assert f"{features.n_rows('dev'):,}" in found and str(features.entries["dev"].path) in found
    other = cells(open_features(MODEL, TASK, "ner", Location(cache=root), control=3, fit_on="dev"))
    assert "random labels by word type, seed 3" in other and "is the split dev" in other
    entry = features.entries["train"]
    found = cells(entry)
    assert found[0] == "planted, conll train" and "the whole split: 20 examples" in found
    assert f"{len(LAYERS)} (0 to 3)" in found and "1 (3)" in found
    listed = cells(Entries(features.entries.values()))
    assert [str(one.path) in listed for one in features.entries.values()] == [True] * 3


def test_the_outcome_of_a_run_says_scores_options_and_layers(root):
    spec = probekit.TrainSpec(model=MODEL, task=TASK, head="p32", fit="lbfgs", l2=0.1)
    result = probekit.fit(spec, location=Location(cache=root))
    found = cells(result)
    assert found[0] == "p32, fitted"
    for name in ("dev/span-f1", "test/loss"):
        assert f"{result.scores[name]:.4f}" in found
    assert [f"{result.weights[layer]:.3f}" in found for layer in result.layers] == [True] * 3


def test_a_sweep_returns_records_that_show_themselves(root, tmp_path):
    plan = [
        probekit.TrainSpec(model=MODEL, task=TASK, head=head, fit="lbfgs", select="cv:5")
        for head in ("last", "mean")
    ]
    out = tmp_path / "runs.jsonl"
    records = probekit.sweep(plan, out=out, location=Location(cache=root))
    assert isinstance(records, Records) and set(records.origins.values()) == {out}
    assert {"last", "mean"} <= set(cells(records)) and len(records.to_pandas()) == 2
