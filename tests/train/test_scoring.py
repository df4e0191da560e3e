"""What is kept of rows' probabilities, and views of a trained head class by class."""

from collections import Counter

import numpy as np
import pytest
import torch

from probekit.metrics import METRICS
from probekit.probe.decoders.crf import CRF
from probekit.probe.decoders.linear import Linear, Regression
from probekit.train import scoring
from probekit.train.fit import fit_group
from probekit.train.scoring import (
    ALL_KEPT,
    TOP_KEPT,
    RowProbabilities,
    ScoredSplit,
    assess,
    confusion_of,
    keep_probabilities,
)
from tests.planted import NAMES, plant
from tests.planted_texts import plant_all_texts
from tests.train.grouped import member, opened, splits_in, stream


def assessed(logits, gold, decoder=None, offsets=None, **options):
    decoder = decoder or Linear().build(2, logits.shape[1], torch.Generator())
    offsets = torch.tensor([0, len(logits)]) if offsets is None else offsets
    options = {"predicted": decoder.predict(logits, offsets), "kept": True} | options
    with torch.no_grad():
        return RowProbabilities.joined([assess(decoder, logits, gold, offsets, **options)])


def drawn(n_classes, n_rows=50):
    random = torch.Generator().manual_seed(n_classes)
    logits = torch.randn(n_rows, n_classes, generator=random)
    return logits, torch.randint(0, n_classes, (n_rows,), generator=random)


@pytest.mark.parametrize(("n_classes", "n_rows"), [(1, 50), (ALL_KEPT, 50), (3, 0)])
def test_few_classes_are_kept_in_their_order(n_classes, n_rows):
    logits, gold = drawn(n_classes, n_rows)
    found = assessed(logits, gold)
    assert found.kept is None and found.probabilities.dtype == np.float16
    expected = logits.double().softmax(1).numpy().astype(np.float16)
    assert np.array_equal(found.probabilities, expected)


def test_of_many_classes_the_most_probable_are_kept():
    logits, gold = drawn(ALL_KEPT + 1)
    found = assessed(logits, gold)
    p = logits.double().softmax(1).numpy()
    order = np.argsort(-p, axis=1)[:, :TOP_KEPT]
    assert np.array_equal(found.kept, order)
    assert np.array_equal(found.probabilities, np.take_along_axis(p, order, 1).astype(np.float16))
    assert np.array_equal(found.kept[:, 0], logits.argmax(1).numpy())
    assert np.allclose(found.scores["confidence"], p.max(1))


def test_of_equally_probable_classes_the_first_is_the_predicted_one():
    """Four classes of a vocabulary are equal; float16 makes many more so."""
    logits = torch.full((2, 1000), -5.0)
    logits[0, [900, 400, 300, 7]] = 2.0
    logits[1] = 1e-6 * torch.arange(1000.0)  # all one in float16
    found = assessed(logits, torch.tensor([7, 7]))
    assert found.kept[0, :4].tolist() == [7, 300, 400, 900]
    assert found.kept[1].tolist() == list(range(999, 989, -1))


def test_slices_change_nothing(monkeypatch):
    logits, gold = drawn(300)
    whole = assessed(logits, gold)
    monkeypatch.setattr(scoring, "_SLICE_VALUES", 7 * 300 + 1)
    sliced = assessed(logits, gold)
    assert np.array_equal(whole.scores, sliced.scores)
    assert np.array_equal(whole.kept, sliced.kept)
    assert np.array_equal(whole.probabilities, sliced.probabilities)


def test_sentences_of_a_chain_are_never_cut(monkeypatch):
    decoder = CRF().build(2, 3, torch.Generator().manual_seed(0)).eval()
    torch.nn.init.normal_(decoder.transitions, generator=torch.Generator().manual_seed(1))
    logits, gold = drawn(3, n_rows=12)
    offsets = torch.tensor([0, 5, 5, 12])
    whole = assessed(logits, gold, decoder, offsets)
    monkeypatch.setattr(scoring, "_SLICE_VALUES", 6)
    assert np.array_equal(whole.scores, assessed(logits, gold, decoder, offsets).scores)
    alone = assessed(logits[5:], gold[5:], decoder, torch.tensor([0, 7]))
    assert np.array_equal(whole.probabilities[5:], alone.probabilities)


def test_confidence_of_a_chain_is_that_of_the_tag_on_the_best_path():
    decoder = CRF().build(2, 2, torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        decoder.transitions.copy_(torch.tensor([[0.4, 1e-30], [0.3, 0.3]]).log())
    found = assessed(torch.zeros(2, 2), torch.tensor([0, 0]), decoder)
    assert found.scores["confidence"] == pytest.approx([0.4, 0.7], rel=1e-6)
    assert found.scores["right"].all()
    assert found.scores["loss"] == pytest.approx(-np.log([0.4, 0.7]), rel=1e-6)


def test_nothing_is_kept_unless_asked_for_and_numbers_have_nothing():
    logits, gold = drawn(3)
    assert assessed(logits, gold, kept=False).probabilities is None
    decoder = Regression().build(2, 1, torch.Generator())
    values, offsets = torch.zeros(2, 1), torch.tensor([0, 2])
    assert assess(decoder, values, torch.zeros(2), offsets, predicted=None, kept=True) is None


def test_names_come_most_probable_first():
    kept = keep_probabilities(torch.tensor([[0.2, 0.5, 0.3]]).double().log()).ordered()
    assert kept.classes.tolist() == [[1, 2, 0]]


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
