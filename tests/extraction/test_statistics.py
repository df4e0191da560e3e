"""Range statistics against plain NumPy, and the guard."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from probekit.errors import StateRangeError
from probekit.extraction.statistics import LayerStatistics, all_fit, check_range

values = st.floats(-1e5, 1e5, width=32) | st.sampled_from(
    [float("nan"), float("inf"), float("-inf"), 65504.0, 65536.0]
)


@given(st.lists(st.lists(values, min_size=6, max_size=6), min_size=1, max_size=4))
def test_statistics_equal_numpy(rows):
    block = torch.tensor(rows).reshape(len(rows), 3, 2)
    found = LayerStatistics.of(block)
    array = block.numpy().reshape(len(rows), -1)
    finite = np.where(np.isfinite(array), np.abs(array), 0)
    np.testing.assert_array_equal(found.max_abs, finite.max(axis=1))
    np.testing.assert_array_equal(found.non_finite, (~np.isfinite(array)).sum(axis=1))


def test_an_empty_block_has_zero_range():
    assert LayerStatistics.of(torch.zeros(2, 0, 4)).max_abs == (0.0, 0.0)


def test_merge_takes_the_largest_and_the_sum():
    one = LayerStatistics(max_abs=(1.0, 5.0), non_finite=(0, 1))
    two = LayerStatistics(max_abs=(2.0, 3.0), non_finite=(0, 2))
    assert LayerStatistics.merge([one, two]) == LayerStatistics((2.0, 5.0), (0, 3))


def guard(max_abs, non_finite, dtype):
    check_range(
        {"words": LayerStatistics((1.0, max_abs), (0, non_finite))},
        {"words": (0, 7)},
        dtype,
        place="examples train-0..train-9",
        remedy="probekit extract m t --dtype bfloat16",
    )


def test_the_guard_names_layer_place_and_remedy():
    guard(65504.0, 0, "float16")
    guard(1e9, 0, "bfloat16")
    with pytest.raises(StateRangeError, match=r"layer 7 of .*train-9 .*70,000.*--dtype bfloat16"):
        guard(70_000.0, 0, "float16")
    with pytest.raises(StateRangeError, match=r"layer 7 .* 3 NaN .*--compute-dtype float32"):
        guard(1.0, 3, "bfloat16")


def test_values_fit_float16_to_its_very_end():
    assert all_fit({"words": LayerStatistics((65504.0,), (0,))}, "float16")
    assert not all_fit({"words": LayerStatistics((65505.0,), (0,))}, "float16")
