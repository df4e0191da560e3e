"""Which sentences a run draws, and in which order its steps take them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.errors import OptionError
from probekit.train.sampling import count_classes, draw, hold_out
from probekit.train.stream import BUFFER_ROWS, batches, epoch_order


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


LENGTHS = st.lists(st.integers(0, 3000), min_size=1, max_size=80).map(np.array)


def test_epochs_and_seeds_differ():
    lengths = np.full(40, 10)
    orders = {tuple(epoch_order(lengths, seed, epoch)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9


def test_a_long_split_is_read_buffer_by_buffer_in_whole_blocks():
    lengths = np.full(20_000, 10)
    order = epoch_order(lengths, 0, 0)
    assert sorted(order.tolist()) == list(range(20_000))
    sentences = BUFFER_ROWS // 10
    buffer = np.sort(order[: sentences - 100])
    # Neighbours in the split are mostly neighbours in the buffer: that makes the reads long runs.
    assert (np.diff(buffer) == 1).mean() > 0.9
    # And yet the buffer's blocks come from all over the split.
    assert buffer.min() < 4000 and buffer.max() > 16_000


@given(LENGTHS, st.integers(1, 20), st.integers(1, 3))
def test_batches_cut_each_epoch(lengths, batch_size, epochs):
    steps = list(batches(lengths, seed=1, epochs=epochs, batch_size=batch_size))
    per_epoch = math.ceil(len(lengths) / batch_size)
    assert len(steps) == epochs * per_epoch
    assert max(map(len, steps)) <= batch_size
    for epoch in range(epochs):
        seen = np.concatenate(steps[epoch * per_epoch : (epoch + 1) * per_epoch])
        assert sorted(seen.tolist()) == list(range(len(lengths)))
