"""Rows of a cache that are unread, and the dataset over them: for searches and loops of others."""

import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset

from probekit.errors import OptionError
from probekit.features import Location, open_features
from probekit.store.feature_array import FeatureArray
from tests.planted import DIM, LAYERS, MODEL, TASK, plant_all
from tests.planted_texts import plant_all_texts


def opened(root, task=TASK, label=None, **options):
    return open_features(MODEL, task, label, Location(cache=root), **options)


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
