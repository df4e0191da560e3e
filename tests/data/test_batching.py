"""Batches hold every window once, under the budget, with little padding."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.data.batching import batches_by_length
from probekit.errors import OptionError

LENGTHS = st.lists(st.integers(1, 70), max_size=120).map(lambda values: np.array(values, np.int32))


@given(lengths=LENGTHS, budget=st.integers(1, 400))
def test_batches_partition_the_windows_under_the_budget(lengths, budget):
    batches = batches_by_length(lengths, budget)
    assert sorted(int(i) for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) * lengths[batch].max() <= budget or len(batch) == 1
    in_order = [lengths[i] for batch in batches for i in batch]
    assert in_order == sorted(in_order, reverse=True)


@given(lengths=LENGTHS, budget=st.integers(1, 400))
def test_a_batch_ends_early_only_to_save_padding(lengths, budget):
    batches = batches_by_length(lengths, budget)
    for batch, after in itertools.pairwise(batches):
        width = lengths[batch].max()
        full = (len(batch) + 1) * width > budget
        assert full or (len(batch) * width >= budget / 8 and lengths[after[0]] < 0.85 * width)


def test_equal_lengths_keep_their_order():
    batches = batches_by_length(np.array([3, 5, 3, 5, 3]), 10)
    assert [batch.tolist() for batch in batches] == [[1, 3], [0, 2, 4]]


def padding_efficiency(lengths, batches):
    """Return the share of the tokens computed that are not padding."""
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    return sum(int(lengths[batch].sum()) for batch in batches) / padded


def test_padding_stays_small_on_sentences_of_usual_lengths():
    lengths = np.random.default_rng(0).geometric(1 / 16, size=1400) + 2
    filled = np.sort(lengths)[::-1]
    full, start = [], 0
    while start < len(filled):
        stop = start + max(1, 8192 // int(filled[start]))
        full.append(np.arange(start, min(stop, len(filled))))
        start = stop
    ours = padding_efficiency(lengths, batches_by_length(lengths, 8192))
    assert ours > 0.85 > padding_efficiency(filled, full) + 0.1


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(OptionError, match="--batch-tokens must be at least 1; found 0"):
        batches_by_length(np.array([1]), 0)
