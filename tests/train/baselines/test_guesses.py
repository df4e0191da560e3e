"""The baselines without features against naive ones, written here."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from probekit.features import Location, open_features
from probekit.metrics.class_metrics import F1
from probekit.train.baselines.guesses import majority, memorised
from probekit.train.scoring import gold_of
from tests.planted import MODEL, TASK, plant, plant_all
from tests.planted_texts import plant_all_texts, plant_texts


def splits_in(root, **options):
    location = Location(cache=plant_all(root, types=12, **options))
    return open_features(MODEL, TASK, "ner", location)


def pairs_of(splits, split):
    """Word, label and validity of every row, straight from the table and the labels."""
    table = splits.entries[split].examples
    words = [word for n in range(len(table)) for word in table.words(n)]
    return list(zip(words, splits.labels[split].values, table.valid.tolist(), strict=True))


def most_frequent(counts):
    return min(counts, key=lambda label: (-counts[label], label))


def test_majority_and_memory_equal_naive_ones(tmp_path):
    splits = splits_in(tmp_path, invalid=0.3)
    train = splits.view("train", valid_only=True)
    counts, by_word = Counter(), defaultdict(Counter)
    for word, label, valid in pairs_of(splits, "train"):
        if valid:
            counts[label] += 1
            by_word[word][label] += 1
    for split in ("dev", "test"):
        view = splits.view(split)
        names = np.array(view.all_names)
        words = [word for word, _, _ in pairs_of(splits, split)]
        assert view.words == words
        assert set(names[majority(train)(view)]) == {most_frequent(counts)}
        expected = [most_frequent(by_word.get(word, counts)) for word in words]
        assert names[memorised(train)(view)].tolist() == expected


def test_a_regression_guesses_the_mean_of_train(tmp_path):
    plant_all_texts(tmp_path, "glue/stsb")
    splits = open_features(MODEL, "glue/stsb", None, Location(cache=tmp_path))
    found = majority(splits.view("train"))(splits.view("test"))
    values = [float(value) for value in splits.labels["train"].values]
    np.testing.assert_allclose(found, np.full(50, sum(values) / len(values)))


def test_always_yes_is_scored_in_the_unit_of_its_column(tmp_path):
    """MRPC's dev has 408 pairs, 279 of them paraphrases: an F1 of 81.2 and an accuracy of 68.4."""
    values = {"train": ["1", "1", "0"], "dev": ["1"] * 279 + ["0"] * 129}
    for split, own in values.items():
        plant_texts(tmp_path, "glue/mrpc", split, count=len(own), values=own)
    splits = open_features(MODEL, "glue/mrpc", None, Location(cache=tmp_path))
    view = splits.view("dev")
    scores = F1(gold_of(view, F1)).score(majority(splits.view("train"))(view))
    assert scores["f1"] == pytest.approx(2 * 279 / (279 + 408)) == pytest.approx(0.8122, abs=1e-4)
    assert scores["accuracy"] == pytest.approx(279 / 408)


def test_a_label_unseen_in_train_is_never_guessed(tmp_path):
    plant(tmp_path, names=("O", "B-PER"), types=5)
    plant(tmp_path, "dev", types=9)
    splits = open_features(MODEL, TASK, "ner", Location(cache=tmp_path))
    train, view = splits.view("train", valid_only=True), splits.view("dev")
    for guess in (majority(train), memorised(train)):
        assert guess(view).max() < len(splits.label_map)
