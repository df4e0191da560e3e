"""Rows as other tools take them: arrays, tables, rows of a cache that are unread, a dataset."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.utils.data import DataLoader, Subset

from probekit.base.fingerprint import digest
from probekit.errors import OptionError, UnknownNameError
from probekit.features import Location, open_features
from probekit.store.feature_array import FeatureArray
from probekit.tasks.schemes import NO_LABEL
from tests.planted import DIM, LAYERS, MODEL, TASK, plant, plant_all, store_labels
from tests.planted_texts import plant_all_texts


def opened(root, task=TASK, label=None, **options):
    return open_features(MODEL, task, label, Location(cache=root), **options)


def test_rows_of_a_layer_stand_beside_their_labels_and_words(tmp_path):
    features = opened(plant_all(tmp_path))
    X, y, words = features.numpy("dev", 2)
    entry = features.entries["dev"]
    assert X.dtype == np.float32 and X.shape == (len(y), entry.arrays["words"].dim)
    assert y.tolist() == list(features.labels["dev"].values)
    examples = entry.examples
    for row in (0, 17, len(y) - 1):
        sentence, word = words[row]
        stored = entry.arrays["words"].read([int(examples.row_start[sentence] + word)], layers=[2])
        assert np.array_equal(X[row], stored[0, 0].numpy())
    assert np.bincount(words[:, 0]).tolist() == examples.n_rows.tolist()


@pytest.mark.parametrize("layer", [1, 2])
def test_an_estimator_reads_what_the_layer_shows(tmp_path, layer):
    """The label's direction is planted in layers 2 and 3 alone."""
    features = opened(plant_all(tmp_path, noise=0.1))
    X, y, _ = features.numpy("train", layer=layer)
    score = LogisticRegression(max_iter=300).fit(X, y).score(*features.numpy("test", layer)[:2])
    assert score > 0.95 if layer == 2 else score < 0.5


def test_a_frame_has_a_line_per_labelled_word(tmp_path):
    plant(tmp_path, "train")
    entry = plant(tmp_path, "dev", invalid=0.3)
    names = [["B-PER"] * int(count) for count in entry.examples.n_rows]
    names[1][0] = NO_LABEL
    store_labels(entry, names, digest(names))
    features = opened(tmp_path)
    frame = features.to_frame("dev")
    assert list(frame) == ["id", "position", "word", "label", "row"]
    second = frame[frame.id == entry.examples.ids[1]]
    assert second.position.tolist() == list(range(1, int(entry.examples.n_rows[1])))
    assert second.word.tolist() == list(entry.examples.words(1))[1:]
    assert set(frame.label) == {"B-PER"}
    states = features.view("dev").array.read(frame.row.to_numpy(), layers=[3])[:, 0]
    assert np.array_equal(states.numpy(), features.numpy("dev", 3).X)
    valid = features.to_frame("dev", valid_only=True)
    assert len(valid) < len(frame) and features.numpy("dev", 1, valid_only=True).X.any(1).all()


def test_whole_texts_have_one_row_each(tmp_path):
    features = opened(plant_all_texts(tmp_path), "glue/sst2")
    X, y, words = features.numpy("dev", 1, pooling="cls")
    frame = features.to_frame("dev")
    assert list(frame) == ["id", "position", "text", "label", "row"]
    assert len(X) == len(frame) == len(set(frame.id)) and frame.label.tolist() == y.tolist()
    assert words.tolist() == [[n, 0] for n in range(len(X))]
    assert frame.text.tolist() == features.view("dev").texts


def test_slips_in_python_are_read_or_answered_with_what_is_near(tmp_path):
    features = opened(plant_all(tmp_path))
    assert np.array_equal(features.numpy("dev", layer=-1).X, features.numpy("dev", layer=3).X)
    assert features.rows("dev", [-1, 0]).X.layers == (3, 0)
    assert features.rows("dev", "1:").X.layers == (1, 2, 3)
    with pytest.raises(
        UnknownNameError, match=r"'trian'\. Did you mean 'train'\? Choose from: dev"
    ):
        features.numpy("trian", 1)
    for layer in (-5, 4, None):
        with pytest.raises(OptionError, match=rf"layer {layer!r}: .* 0 to 3, .* -4 to -1"):
            features.numpy("dev", layer=layer)


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return opened(plant_all(tmp_path_factory.mktemp("cache"), sentences=30))


def counted(monkeypatch):
    """Return a list that grows by the number of rows of every read."""
    read, original = [], FeatureArray.read

    def reading(self, rows, layers=None, out=None):
        read.append(0 if isinstance(rows, slice) else len(rows))
        return original(self, rows, layers, out)

    monkeypatch.setattr(FeatureArray, "read", reading)
    return read


def test_rows_are_those_of_each_layer(splits):
    X, y, words = splits.rows("dev")
    assert X.shape == (len(y), len(LAYERS), DIM) and len(X) == len(words) and X.ndim == 3
    read = X.read()
    assert read.dtype == np.float32
    for place, layer in enumerate(LAYERS):
        one = splits.numpy("dev", layer)
        assert np.array_equal(read[:, place], one.X) and y.tolist() == one.y.tolist()
        assert np.array_equal(words, one.words)
    some = splits.rows("dev", layers=[3, 1]).X
    assert np.array_equal(some.read(), read[:, [3, 1]]) and some.layers == (3, 1)
    assert np.array_equal(np.asarray(some), some.read())
    assert np.asarray(some, dtype=np.float64).dtype == np.float64


def test_rows_are_cut_without_reading_any(splits, monkeypatch):
    whole = splits.rows("dev").X
    expected = whole.read()
    read = counted(monkeypatch)
    mask = np.arange(len(whole)) % 3 == 0
    cuts = [whole[5:9], whole[np.array([7, 2, 2])], whole[mask, ...], whole[::-2], whole[[]]]
    taken = [slice(5, 9), [7, 2, 2], mask, slice(None, None, -2), []]
    assert read == []
    for cut, places in zip(cuts, taken, strict=True):
        assert np.array_equal(cut.read(), expected[places])
        assert np.array_equal(cut.groups, whole.groups[places])
    assert "unread" in repr(whole)


@pytest.mark.parametrize("key", [3, np.int64(3), (slice(None), 2), (slice(None), slice(0, 1), 3)])
def test_a_choice_of_values_says_to_read_first(splits, key):
    with pytest.raises(OptionError, match=r"rows\.read"):
        splits.rows("dev").X[key]


def test_a_layer_that_is_not_stored_is_refused_before_anything_is_read(splits):
    for asked in (splits.rows, splits.dataset):
        with pytest.raises(OptionError, match="layer 9: this model has layers 0 to"):
            asked("dev", layers=[1, 9])


def test_groups_are_sentences_or_what_they_have_in_common(tmp_path):
    root = plant_all_texts(tmp_path)
    features = opened(root, "glue/sst2")
    assert features.row_groups("dev").tolist() == list(range(len(features.numpy("dev", 1).y)))
    grouped = opened(root, "glue/sst2", group="text")
    names = np.array(grouped.view("train").texts)
    numbers = grouped.row_groups("train")
    assert (numbers[:, None] == numbers).tolist() == (names[:, None] == names).tolist()
    assert grouped.rows("train").X.groups.tolist() == numbers.tolist()


def test_another_process_is_sent_no_rows(splits):
    whole = splits.rows("dev").X
    whole.read()  # the files are mapped
    sent = pickle.dumps(whole)
    assert len(sent) < len(whole) * 40 + 4_000
    assert np.array_equal(pickle.loads(sent).read(), whole.read())


def test_items_are_rows_with_their_targets(splits):
    dataset, rows = splits.dataset("dev"), splits.rows("dev")
    states = rows.X.read()
    assert len(dataset) == len(states) and dataset.layers == LAYERS
    for index in (0, 11, -1):
        item = dataset[index]
        assert item.states.dtype == torch.float32
        assert np.array_equal(item.states.numpy(), states[index])
        assert dataset.classes[item.target] == rows.y[index]
        assert [int(item.sentence), int(item.word)] == rows.words[index].tolist()
    assert dataset.n_classes == len(splits.label_map)
    for index in (len(dataset), -len(dataset) - 1):
        with pytest.raises(IndexError):
            dataset[index]


def test_a_batch_is_one_read(splits, monkeypatch):
    dataset = splits.dataset("train", layers=[2])
    read = counted(monkeypatch)
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0)).tolist()
    batches = list(DataLoader(Subset(dataset, order), batch_size=64))
    assert read == [len(batch.target) for batch in batches] and max(read) == 64
    joined = torch.cat([batch.states for batch in batches])
    assert np.array_equal(joined.numpy(), splits.rows("train", layers=[2]).X.read()[order])
    assert batches[0].target.dtype == batches[0].word.dtype == torch.int64


@pytest.mark.parametrize("sent", [False, True], ids=["forked", "sent"])
# a fork of a process with threads, which the tests have and workers do not use
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_workers_read_for_themselves(splits, sent):
    dataset = splits.dataset("dev")
    dataset[0]  # the files are mapped before there are workers
    if sent:  # as to a process that is spawned
        dataset = pickle.loads(pickle.dumps(dataset))
    batches = list(DataLoader(dataset, 50, num_workers=1, multiprocessing_context="fork"))
    assert np.array_equal(
        torch.cat([batch.states for batch in batches]).numpy(), splits.rows("dev").X.read()
    )
    targets = torch.cat([batch.target for batch in batches])
    assert targets.tolist() == splits.view("dev").targets.tolist()


def test_numbers_are_float32_targets(tmp_path):
    features = opened(plant_all_texts(tmp_path, task="glue/stsb"), "glue/stsb")
    dataset = features.dataset("dev", pooling="mean")
    (batch,) = DataLoader(dataset, batch_size=len(dataset))
    assert batch.target.dtype == torch.float32 and dataset.classes == ()
    np.testing.assert_allclose(batch.target, features.numpy("dev", 1, pooling="mean").y, rtol=1e-6)
