"""Range statistics against plain NumPy, the guard, and errors of the thread that writes."""

import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from probekit.backbone.model import OVERFLOW
from probekit.errors import StateRangeError
from probekit.extraction.compute import (
    BeyondFloat16Error,
    ComputedUnit,
    LayerStatistics,
    check_range,
    writer_thread,
)
from tests.extraction.planned import plan_of

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
    assert LayerStatistics.of(block[:, :0]).max_abs == (0.0,) * len(rows)


def guard(max_abs, non_finite, dtype):
    plan = plan_of(10, 5, 8, 7, ("cls",), layers="0,7", dtype=dtype)
    statistics = {"cls": LayerStatistics((1.0, max_abs), (0, non_finite))}
    item = ComputedUnit(unit=plan.units[0], blocks={}, statistics=statistics, memory=torch.empty(0))
    check_range(item, plan, OVERFLOW)


def test_the_guard_names_layer_and_place():
    guard(65504.0, 0, "float16")
    guard(1e9, 0, "bfloat16")
    with pytest.raises(BeyondFloat16Error, match=r"layer 7 of examples 0 to 9 .*70,000; .*65,504"):
        guard(70_000.0, 0, "float16")
    with pytest.raises(StateRangeError, match=r"layer 7 .* 3 NaN .*--compute-dtype float32") as nan:
        guard(1.0, 3, "bfloat16")
    assert nan.type is StateRangeError


def test_put_waits_while_one_item_is_written():
    release, written = threading.Event(), []

    def write(item):
        release.wait(10)
        written.append(item)

    with writer_thread(write) as put:
        put(0)
        blocked = threading.Thread(target=put, args=(1,))
        blocked.start()
        blocked.join(0.2)
        assert blocked.is_alive(), "never are two in memory beside the one that is computed"
        release.set()
        blocked.join(10)
    assert written == [0, 1]


def test_an_error_reaches_the_caller_and_later_items_are_dropped():
    written = []

    def write(item):
        if item == 1:
            raise OSError("disk full")
        written.append(item)

    with pytest.raises(OSError, match="disk full"), writer_thread(write) as put:
        for item in range(50):
            put(item)
            time.sleep(0.001)
    assert written == [0]


def test_an_error_of_the_last_item_is_raised_on_leaving_unless_the_caller_has_its_own():
    def fail(item):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), writer_thread(fail) as put:
        put(0)
    with pytest.raises(KeyError), writer_thread(fail) as put:
        put(0)
        raise KeyError("mine")
