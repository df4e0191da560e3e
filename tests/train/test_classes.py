"""Per-class views of a trained head against counts made here."""

from collections import Counter

import numpy as np
import pytest

from probekit.base.layers import parse_layers
from probekit.features import Location, open_features
from probekit.metrics import METRICS
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.train.fit import fit_group
from probekit.train.scoring import ScoredSplit, confusion_of
from tests.planted import MODEL, NAMES, TASK, plant, plant_all
from tests.planted_texts import plant_all_texts
from tests.train.grouped import member_spec, stream_spec

TAGS = ("A", "B", "C")


def splits_in(root, task=TASK, label="ner"):
    return open_features(MODEL, task, label, Location(cache=root))


def fit(splits, *heads, decoder="linear", metric="accuracy", pooling=None):
    members = tuple(
        member_spec(
            head=HEADS[head](),
            decoder=DECODERS[decoder](),
            layers=parse_layers(HEADS[head].default_layers, 3),
            lr=2e-2,
        )
        for head in heads
    )
    train = splits.view("train", valid_only=True, pooling=pooling)
    stream = stream_spec(train=train, seed=0, epochs=4, members=members)
    dev = splits.view("dev", pooling=pooling)
    return fit_group([stream], dev, metric=METRICS[metric], predictions=True)[0]


def types_of(splits, split):
    names = splits.labels[split].values
    if "O" not in splits.label_map.names:
        return list(names)
    return [name if name == "O" else name[2:] for name in names]


@pytest.mark.parametrize("names", [NAMES, TAGS])
def test_weights_of_classes_average_to_the_weights_of_all_rows(tmp_path, names):
    plant_all(tmp_path, names=names, invalid=0.1)
    splits = splits_in(tmp_path)
    counts = Counter(types_of(splits, "dev"))
    for result in fit(splits, "attention-fusion", "dwatt"):
        assert set(result.class_weights) == set(counts)
        for layer, overall in result.weights.items():
            parts = [counts[name] * result.class_weights[name][layer] for name in counts]
            assert sum(parts) / sum(counts.values()) == pytest.approx(overall, abs=1e-6)
        for weights in result.class_weights.values():
            assert sum(weights.values()) == pytest.approx(1, abs=1e-5)
        assert len({tuple(weights.values()) for weights in result.class_weights.values()}) > 1


def test_heads_that_weigh_all_rows_alike_have_no_weights_of_classes(tmp_path):
    splits = splits_in(plant_all(tmp_path))
    for result in fit(splits, "last", "p32", "mean"):
        assert result.class_weights == {}
        assert result.confusion is not None


@pytest.mark.parametrize("names", [NAMES, TAGS])
@pytest.mark.parametrize("decoder", ["linear", "crf"])
def test_confusions_are_counts_of_the_predictions(tmp_path, names, decoder):
    plant_all(tmp_path, names=names, noise=1.0)
    splits = splits_in(tmp_path)
    (result,) = fit(splits, "last", decoder=decoder)
    found = result.confusion
    gold = types_of(splits, "dev")
    predicted = [splits.label_map.names[number] for number in result.predictions["dev"]]
    if names is NAMES:
        predicted = [name if name == "O" else name[2:] for name in predicted]
    expected = Counter(zip(gold, predicted, strict=True))
    counts = np.array(found["counts"])
    assert counts.sum() == len(splits.view("dev")) == len(gold)
    assert len(expected) > len(set(gold)), "without errors there is nothing to see"
    for row, one in enumerate(found["rows"]):
        for column, other in enumerate(found["columns"]):
            assert counts[row, column] == expected.get((one, other), 0)


def test_a_class_unseen_in_train_has_a_row_and_no_column(tmp_path):
    plant(tmp_path, names=NAMES[:3])
    plant(tmp_path, "dev", sentences=30)
    splits = splits_in(tmp_path)
    (result,) = fit(splits, "attention-fusion")
    counts = Counter(types_of(splits, "dev"))
    found = result.confusion
    rows = dict(zip(found["rows"], np.array(found["counts"]).sum(1).tolist(), strict=True))
    assert rows == counts and "LOC" in rows and "LOC" not in found["columns"]
    assert set(result.class_weights) == set(counts)


def test_whole_texts_have_classes_and_numbers_have_none(tmp_path):
    for task in ("glue/sst2", "glue/stsb"):
        plant_all_texts(tmp_path, task)
    (texts,) = fit(splits_in(tmp_path, "glue/sst2", None), "attention-fusion")
    assert set(texts.class_weights) == {"0", "1"}
    assert np.array(texts.confusion["counts"]).sum() == 60
    splits = splits_in(tmp_path, "glue/stsb", None)
    (numbers,) = fit(splits, "attention-fusion", decoder="regression", metric="spearman")
    assert numbers.class_weights == {} and numbers.confusion is None
    assert numbers.diagnosis["one_value"] is False


def test_too_many_classes_make_no_confusion(tmp_path, monkeypatch):
    plant_all(tmp_path)
    view = open_features(MODEL, TASK, "ner", Location(cache=tmp_path)).view("dev")
    split = ScoredSplit(view, {}, METRICS["accuracy"])
    assert len(confusion_of(split, view.targets)["rows"]) == 3
    monkeypatch.setattr("probekit.train.scoring.MOST_CLASSES", 2)
    assert confusion_of(split, view.targets) is None
