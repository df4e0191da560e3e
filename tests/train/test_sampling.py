import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.errors import OptionError
from probekit.train.sampling import count_classes, draw, hold_out


def test_classes_of_chunk_labels_are_their_types_without_o_and_others_the_labels():
    assert count_classes(["O", "B-PER", "I-PER", "I-LOC"]) == 2
    assert count_classes(["NN", "VB", "O"]) == 3
    assert count_classes(["B-PER", "NN"]) == 2
    assert count_classes(["O"]) == 1


@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 15), st.integers(0, 5))
def test_a_few_shot_draw_has_k_times_c_distinct_sentences(n, classes, shots, seed):
    if shots * classes > n:
        with pytest.raises(OptionError, match=f"largest K here is {n // classes}"):
            draw(n, n_classes=classes, shots=shots, fraction=None, seed=seed)
        return
    drawn = draw(n, n_classes=classes, shots=shots, fraction=None, seed=seed)
    assert len(drawn) == shots * classes
    assert (np.diff(drawn) > 0).all()
    assert drawn.min() >= 0 and drawn.max() < n


def test_each_seed_draws_its_own_sample_and_repeats_it():
    samples = [
        draw(1000, n_classes=4, shots=8, fraction=None, seed=seed).tolist() for seed in (0, 1, 0)
    ]
    assert samples[0] == samples[2] != samples[1]


def test_every_sentence_is_equally_likely():
    counts = np.zeros(20)
    for seed in range(400):
        counts[draw(20, n_classes=1, shots=5, fraction=None, seed=seed)] += 1
    # 400 draws with p = 1/4: mean 100, standard deviation 8.7; five of those either way.
    assert abs(counts - 100).max() < 44


def test_fractions():
    assert len(draw(1000, n_classes=4, shots=None, fraction=0.25, seed=1)) == 250
    assert len(draw(10, n_classes=4, shots=None, fraction=0.01, seed=1)) == 1
    assert len(draw(10, n_classes=4, shots=None, fraction=0.0, seed=1)) == 0
    everything = draw(10, n_classes=4, shots=None, fraction=1.0, seed=1)
    assert everything.tolist() == list(range(10))


def test_a_hold_out_parts_the_split_and_leaves_no_side_empty():
    kept, held = hold_out(50, 0.2)
    assert len(held) == 10
    assert sorted([*kept, *held]) == list(range(50))
    assert hold_out(50, 0.2)[1].tolist() == held.tolist()
    with pytest.raises(OptionError, match="leaves one side empty"):
        hold_out(3, 0.1)
