"""Control labels: one per word type, whatever the context, the split and the order."""

from collections import Counter

import numpy as np
import pytest

from probekit.errors import OptionError
from probekit.features import Location, open_features
from probekit.features.split_labels import SplitLabels, control_labels
from probekit.store import Entry
from tests.planted import MODEL, TASK, plant, plant_all
from tests.planted_texts import plant_all_texts

SPLITS = ("train", "dev", "test")


class Texts(Entry):
    """As much of an entry as control labels look at."""

    examples = property(lambda self: self)

    def __init__(self, *sentences):
        self._words = np.array([word for sentence in sentences for word in sentence.split()])

    def flat(self, column):
        assert column == "words"
        return self._words


def drawn(seed=0, **splits):
    """Control labels of splits given as sentences; ten real labels of train, and O elsewhere."""
    entries = {name: Texts(*sentences) for name, sentences in splits.items()}
    labels = {
        name: SplitLabels(_real(name, len(entry.flat("words"))), f"of {name}", name)
        for name, entry in entries.items()
    }
    found = control_labels(entries, labels, "tagging", seed=seed)
    return {
        name: dict(zip(entry.flat("words").tolist(), found[name].values, strict=True))
        for name, entry in entries.items()
    }, found


def _real(name, count):
    return [f"L{n % 10}" if name == "train" else "O" for n in range(count)]


WORDS = [f"word{n}" for n in range(40)]


def test_a_type_has_one_label_in_all_splits(tmp_path):
    location = Location(cache=plant_all(tmp_path, types=40))
    splits = open_features(MODEL, TASK, "ner", location, control=3)
    by_type = {}
    for split in SPLITS:
        words = splits.entries[split].examples.flat("words").tolist()
        assert len(words) == len(splits.labels[split].values)
        for word, label in zip(words, splits.labels[split].values, strict=True):
            assert by_type.setdefault(word, label) == label, word
    assert len(by_type) == 40 and len(set(by_type.values())) == 5
    real = open_features(MODEL, TASK, "ner", location)
    assert splits.label_map == real.label_map
    assert (splits.metric, real.metric) == ("accuracy", "span-f1")
    assert splits.labels["dev"].where.endswith("(control)")


def test_the_order_of_examples_and_the_other_splits_do_not_matter():
    one, _ = drawn(train=WORDS, dev=["word3 new"])
    backwards, _ = drawn(train=WORDS[::-1], dev=["new word3", "another"], test=["word5 new"])
    assert backwards["train"] == one["train"]
    assert backwards["dev"].items() >= one["dev"].items()
    assert backwards["test"] == {"word5": one["train"]["word5"], "new": one["dev"]["new"]}
    assert one["dev"]["word3"] == one["train"]["word3"]


def test_types_are_words_as_they_are_written():
    words = [f"{word}{n}" for n in range(30) for word in ("Same", "same", "SAME")]
    found, _ = drawn(train=words)
    found = found["train"]
    differing = sum(found[f"Same{n}"] != found[f"same{n}"] for n in range(30))
    assert differing > 15  # of 30, nine in ten differ by chance


def test_labels_are_drawn_from_how_often_they_occur_in_train():
    real = ["O"] * 700 + ["A"] * 200 + ["B"] * 99 + ["C"]
    entry = Texts(*(f"t{n}" for n in range(1000)))
    labels = {"train": SplitLabels(real, "f", "train")}
    found = control_labels({"train": entry}, labels, "tagging", seed=1)["train"]
    counts = Counter(found.values)
    for label, share in (("O", 0.7), ("A", 0.2), ("B", 0.099)):
        deviation = (1000 * share * (1 - share)) ** 0.5
        assert abs(counts[label] - 1000 * share) < 4 * deviation, counts
    assert set(counts) <= set(real)
    # How often a type occurs has no say: one draw each.
    often = Texts(*(f"t{n}" for n in range(1000) for _ in range(1 + n % 3)))
    longer = {"train": SplitLabels((real * 2)[:1999], "f", "train")}
    entries = {"train": Texts(*often.flat("words")[:2000])}
    again = control_labels(entries, longer, "tagging", seed=1)["train"]
    pairs = dict(zip(often.flat("words")[:2000].tolist(), again.values, strict=True))
    assert 0.6 < Counter(pairs.values())["O"] / len(pairs) < 0.8


def test_seeds_differ_and_are_known_by_their_fingerprints():
    (zero, about), (one, other) = (drawn(seed=seed, train=WORDS, dev=["x"]) for seed in (0, 1))
    same = sum(zero["train"][word] == one["train"][word] for word in WORDS)
    assert same < 15  # of 40, ten labels
    for split in ("train", "dev"):
        prints = {about[split].fingerprint, other[split].fingerprint, f"of {split}"}
        assert len(prints) == 3
    again, repeated = drawn(seed=0, train=WORDS, dev=["x"])
    assert again == zero
    assert {s: f.fingerprint for s, f in repeated.items()} == {
        s: f.fingerprint for s, f in about.items()
    }


def test_invalid_words_have_control_labels_as_well(tmp_path):
    plant(tmp_path, types=10, invalid=0.5)
    location = Location(cache=tmp_path)
    splits = open_features(MODEL, TASK, "ner", location, control=0)
    view = splits.view("train", valid_only=True)
    words = splits.entries["train"].examples.flat("words")[splits.entries["train"].examples.valid]
    names = [view.all_names[target] for target in view.targets]
    assert len(set(zip(words.tolist(), names, strict=True))) == len(set(words.tolist()))


def test_texts_have_no_types(tmp_path):
    plant_all_texts(tmp_path, "glue/rte")
    with pytest.raises(OptionError, match="a control task gives every word type a random label"):
        open_features(MODEL, "glue/rte", None, Location(cache=tmp_path), control=0)
