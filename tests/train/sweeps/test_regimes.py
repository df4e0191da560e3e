"""Training under noisy labels, and with few of one class."""

import json

import numpy as np
import pytest

from probekit import Location, TrainSpec, open_features, sweep
from probekit.errors import OptionError
from probekit.results.tables.scores import score_table
from tests import tiny
from tests.extraction.extracted import entries_of

SPLITS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """Return model, texts of two classes of which a third is `yes`, and where features lie."""
    root = tmp_path_factory.mktemp("regimes")
    model, folder = tiny.build("bert", root / "tiny"), root / "texts"
    folder.mkdir()
    for split in SPLITS:
        rows = [
            {"text": f"the {'cat' if n % 3 == 0 else 'dog'} sat", "label": "ny"[n % 3 == 0]}
            for n in range(90)
        ]
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    entries_of(model, folder, root / "cache", SPLITS, kind="sentence", label=None, keep=("mean",))
    return {"model": str(model), "task": str(folder)}, Location(cache=root / "cache")


def opened(cached, **options):
    data, location = cached
    return open_features(**data, location=location, **options)


def test_noise_replaces_as_many_labels_of_train_as_it_says(cached):
    clean = opened(cached)
    before, changed = np.array(clean.labels["train"].values), []
    for share in (0.1, 0.3):
        noisy = opened(cached, label_noise=share)
        now = np.array(noisy.labels["train"].values)
        changed.append(now != before)
        assert changed[-1].sum() == round(share * 90)
        assert noisy.labels["train"].fingerprint != clean.labels["train"].fingerprint
        for split in ("dev", "test"):
            assert noisy.labels[split] == clean.labels[split]
    assert changed[1][changed[0]].all(), "a larger share has those of a smaller one"


@pytest.mark.parametrize("share", [0.02, 0.25, 1 / 3, 0.5, 0.9])
def test_train_has_the_share_of_positives_that_is_asked_for(cached, share):
    splits = opened(cached, positives=share)
    labels = np.array(splits.labels["train"].values)[splits.drawable]
    positive, negative = (labels == "y").sum(), (labels == "n").sum()
    assert positive / len(labels) == pytest.approx(share, abs=1 / len(labels))
    assert positive == 30 or negative == 60, "no more are left out than must be"
    assert len(splits.view("test")) == 90


def test_runs_under_both_are_told_apart(cached, tmp_path):
    data, location = cached
    regimes = [{}, {"label_noise": 0.4}, {"positives": 0.1}, {"label_noise": 0.4, "shots": 20}]
    plan = [TrainSpec(**data, head="last", **regime) for regime in regimes]
    records = sweep(plan, location=location, out=tmp_path / "runs.jsonl")
    assert [record.protocol for record in records] == [
        "full", "full, label noise 0.4", "full, positives 0.1", "few-shot, label noise 0.4",
    ]  # fmt: skip
    assert len({record.key for record in records}) == 4
    assert records[0].test_score == 1.0
    table = score_table(records).text()
    assert "labels fingerprint" not in table and "full, positives 0.1" in table


@pytest.mark.parametrize("options", [{"label_noise": 1.0}, {"positives": 0}, {"positives": "a"}])
def test_shares_are_between_0_and_1(cached, options):
    with pytest.raises(OptionError, match="a number between 0 and 1"):
        TrainSpec(**cached[0], head="last", **options)
    if "a" not in options.values():
        with pytest.raises(OptionError, match="a number between 0 and 1"):
            opened(cached, **options)


def test_what_has_no_classes_has_no_noise(tmp_path):
    model, folder = tiny.build("bert", tmp_path / "tiny"), tmp_path / "texts"
    folder.mkdir()
    rows = [f"the cat sat,{n}.5" for n in range(6)]
    (folder / "train.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    (entry,) = entries_of(
        model, folder, tmp_path / "cache", kind="regression", label=None, keep=("mean",)
    )
    for option, message in (("label_noise", "replaces classes"), ("positives", "of two classes")):
        with pytest.raises(OptionError, match=message):
            open_features(entry, location=Location(cache=tmp_path / "cache"), **{option: 0.2})
