import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from probekit.train.stream import BUFFER_ROWS, batches, epoch_order

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
