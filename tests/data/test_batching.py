"""Batches hold every window once, under the budget, with little padding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probekit.data.batches import Batching, batches_by_length
from probekit.errors import OptionError

LENGTHS = st.lists(st.integers(1, 70), max_size=120).map(lambda values: np.array(values, np.int32))


@settings(max_examples=90)
@given(
    lengths=LENGTHS, budget=st.integers(1, 400),
    padded_to=st.integers(0, 70) | st.none(), alone=st.booleans(),
)  # fmt: skip
def test_batches_partition_the_windows_under_the_budget_by_their_length_where_padding_changes_them(
    lengths, budget, padded_to, alone
):
    how = () if padded_to is None else (Batching(padded_to=padded_to, alone=alone),)
    batches = batches_by_length(lengths, budget, *how)
    assert sorted(int(i) for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        widths = lengths[batch]
        assert len(batch) * widths.max() <= budget or len(batch) == 1
        if how and widths.max() > padded_to:
            assert widths.min() == widths.max() and not (alone and len(batch) > 1)
    in_order = [lengths[i] for batch in batches for i in batch]
    assert in_order == sorted(in_order, reverse=True)
    if how and not alone:
        widths, counts = np.unique(lengths[lengths > padded_to], return_counts=True)
        fewest = sum(-(-n // max(budget // int(w), 1)) for w, n in zip(widths, counts, strict=True))
        assert sum(lengths[batch].max() > padded_to for batch in batches) == fewest


def price(lengths, batches, budget):
    """Return the tokens computed, padding included, and those that batches cost besides."""
    return sum(len(batch) * int(lengths[batch].max()) + budget / 64 for batch in batches)


def filled_up(lengths, budget, *, one_length=False):
    """Return batches that are filled up, with windows of one length if so wished."""
    order = np.argsort(-lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        width = lengths[order[start]]
        stop = start + max(budget // int(width), 1)
        if one_length:
            stop = min(stop, start + np.count_nonzero(lengths[order[start:]] == width))
        batches.append(order[start:stop])
        start = stop
    return batches


def least_price(lengths, budget):
    """Return the price of the best of all ways to cut the descending lengths."""
    widths = np.sort(lengths)[::-1]
    least = np.append(np.full(len(widths), np.inf), 0.0)
    for start in reversed(range(len(widths))):
        sizes = np.arange(1, min(max(budget // int(widths[start]), 1), len(widths) - start) + 1)
        least[start] = (sizes * widths[start] + budget / 64 + least[start + sizes]).min()
    return least[0]


@settings(max_examples=60)
@given(lengths=LENGTHS, budget=st.integers(1, 400))
def test_batches_cost_no_more_than_full_ones_or_those_of_one_length(lengths, budget):
    found = price(lengths, batches_by_length(lengths, budget), budget)
    assert found <= 1e-9 + price(lengths, filled_up(lengths, budget), budget)
    assert found <= 1e-9 + price(lengths, filled_up(lengths, budget, one_length=True), budget)


@pytest.mark.parametrize("budget", [512, 4096])
def test_batches_cost_nearly_the_least_on_sentences_of_usual_lengths(budget):
    lengths = np.random.default_rng(0).geometric(1 / 16, size=1400) + 2
    found = price(lengths, batches_by_length(lengths, budget), budget)
    assert least_price(lengths, budget) <= found <= 1.005 * least_price(lengths, budget)


def test_equal_lengths_keep_their_order():
    batches = batches_by_length(np.array([3, 5, 3, 5, 3]), 10)
    assert [batch.tolist() for batch in batches] == [[1, 3], [0, 2, 4]]


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(OptionError, match="--batch-tokens must be at least 1; found 0"):
        batches_by_length(np.array([1]), 0)
