"""Large buffers: the shape and dtype asked for, from the beginning of a page."""

import mmap

import pytest
import torch

from probekit.base.tensors import ReusedMemory, carve, carved_bounds, empty_buffer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 0, 4), (1,), (2, 2**11, 2**10)])
def test_a_buffer_can_be_filled(shape, dtype):
    buffer = empty_buffer(shape, dtype)
    assert buffer.shape == shape
    assert buffer.dtype == dtype
    assert buffer.is_contiguous()
    assert buffer.data_ptr() % mmap.PAGESIZE == 0
    assert (buffer.fill_(3) == 3).all()


def test_memory_that_is_given_back_is_used_again_where_it_is_enough():
    reused = ReusedMemory()
    first, second = reused.take(100), reused.take(100)
    assert first.data_ptr() != second.data_ptr()
    reused.give_back(first)
    assert reused.take(80).data_ptr() == first.data_ptr()
    reused.give_back(first)
    larger = reused.take(200)
    assert len(larger) == 200 and larger.dtype == torch.uint8


def test_tensors_are_carved_side_by_side():
    buffers = {
        "words": ((2, 3, 5), torch.bfloat16),
        "none": ((2, 0, 5), torch.float32),
        "mean": ((2, 1, 5), torch.float32),
    }
    memory = ReusedMemory().take(carved_bounds(buffers)[-1])
    found = carve(memory, buffers)
    for value, (name, (shape, dtype)) in enumerate(buffers.items()):
        assert found[name].shape == shape and found[name].dtype == dtype
        assert found[name].data_ptr() % mmap.PAGESIZE == 0 or not found[name].numel()
        found[name].fill_(value)
    assert all((found[name] == value).all() for value, name in enumerate(buffers))
