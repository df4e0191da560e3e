"""Large buffers: the shape and dtype asked for, aligned as torch's own."""

import pytest
import torch

from probekit.buffers import empty_buffer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 0, 4), (1,), (2, 2**11, 2**10)])
def test_a_buffer_can_be_filled(shape, dtype):
    buffer = empty_buffer(shape, dtype)
    assert buffer.shape == shape
    assert buffer.dtype == dtype
    assert buffer.is_contiguous()
    assert buffer.data_ptr() % 64 == 0
    assert (buffer.fill_(3) == 3).all()


def test_a_buffer_outlives_what_made_it():
    buffers = [empty_buffer((1024,), torch.float32).fill_(n) for n in range(20)]
    assert all((buffer == n).all() for n, buffer in enumerate(buffers))
