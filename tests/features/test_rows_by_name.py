"""Rows as NumPy arrays and tables: what other tools are given."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from probekit.base.fingerprint import digest
from probekit.errors import OptionError, UnknownNameError
from probekit.features import Location, open_features
from probekit.tasks.schemes import NO_LABEL
from tests.planted import MODEL, TASK, plant, plant_all, store_labels
from tests.planted_texts import plant_all_texts


def opened(root, task=TASK, label=None):
    return open_features(MODEL, task, label, Location(cache=root))


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


def test_a_layer_that_is_not_stored_is_named(tmp_path):
    with pytest.raises(OptionError, match="9"):
        opened(plant_all(tmp_path)).numpy("dev", 9)


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
