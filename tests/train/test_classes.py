"""Per-class views of a trained head against counts made here."""

from collections import Counter

import numpy as np
import pytest

from probekit.metrics import METRICS
from probekit.train.fit import fit_group
from probekit.train.scoring import ScoredSplit, confusion_of
from tests.planted import NAMES, plant
from tests.planted_texts import plant_all_texts
from tests.train.grouped import member, opened, splits_in, stream

TAGS = ("A", "B", "C")


def fit(splits, *heads, decoder="linear", metric="accuracy"):
    members = [member(head, decoder, lr=2e-2) for head in heads]
    dev = splits.view("dev")
    own = stream(splits, *members, epochs=4)
    return fit_group([own], dev, metric=METRICS[metric], predictions=True)[0]


def type_of(name, names=NAMES):
    return name if name == "O" or names is TAGS else name[2:]


def types_of(splits, split, names=NAMES):
    return [type_of(name, names) for name in splits.labels[split].values]


@pytest.mark.parametrize(("names", "decoder"), [(NAMES, "crf"), (TAGS, "linear")])
def test_weights_and_confusions_of_classes_are_those_of_their_rows(tmp_path, names, decoder):
    splits = splits_in(tmp_path, names=names, invalid=0.1, noise=1.0)
    weighed, alike = fit(splits, "dwatt", "p32", decoder=decoder)
    gold = types_of(splits, "dev", names)
    counts = Counter(gold)
    assert set(weighed.class_weights) == set(counts) and alike.class_weights == {}
    for layer, overall in weighed.weights.items():
        parts = [counts[name] * weighed.class_weights[name][layer] for name in counts]
        assert sum(parts) / len(gold) == pytest.approx(overall, abs=1e-6)
    for weights in weighed.class_weights.values():
        assert sum(weights.values()) == pytest.approx(1, abs=1e-5)
    assert len({tuple(weights.values()) for weights in weighed.class_weights.values()}) > 1
    for result in (weighed, alike):
        said = [splits.label_map.names[number] for number in result.predictions["dev"]]
        expected = Counter(zip(gold, (type_of(name, names) for name in said), strict=True))
        assert len(expected) > len(counts), "without errors there is nothing to see"
        found = result.confusion
        assert np.sum(found["counts"]) == len(gold)
        for row, counted in zip(found["rows"], found["counts"], strict=True):
            assert counted == [expected.get((row, column), 0) for column in found["columns"]]


def test_a_class_unseen_in_train_has_a_row_and_no_column(tmp_path):
    plant(tmp_path, names=NAMES[:3])
    plant(tmp_path, "dev", sentences=30)
    splits = opened(tmp_path)
    (result,) = fit(splits, "attention-fusion")
    counts = Counter(types_of(splits, "dev"))
    found = result.confusion
    rows = dict(zip(found["rows"], np.array(found["counts"]).sum(1).tolist(), strict=True))
    assert rows == counts and "LOC" in rows and "LOC" not in found["columns"]
    assert set(result.class_weights) == set(counts)


def test_whole_texts_have_classes_and_numbers_have_none(tmp_path):
    for task in ("glue/sst2", "glue/stsb"):
        plant_all_texts(tmp_path, task)
    (texts,) = fit(opened(tmp_path, "glue/sst2", None), "attention-fusion")
    assert set(texts.class_weights) == {"0", "1"}
    assert np.sum(texts.confusion["counts"]) == 60
    splits = opened(tmp_path, "glue/stsb", None)
    (numbers,) = fit(splits, "attention-fusion", decoder="regression", metric="spearman")
    assert numbers.class_weights == {} and numbers.confusion is None
    assert numbers.diagnosis["one_value"] is False


def test_too_many_classes_make_no_confusion(tmp_path, monkeypatch):
    view = splits_in(tmp_path).view("dev")
    split = ScoredSplit(view, {}, METRICS["accuracy"])
    assert len(confusion_of(split, view.targets)["rows"]) == 3
    monkeypatch.setattr("probekit.train.scoring.MOST_CLASSES", 2)
    assert confusion_of(split, view.targets) is None
