"""Large buffers in memory."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_ALIGNMENT = 64  # bytes, as torch's own tensors have


def empty_buffer(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return an uninitialised tensor in the CPU's memory, for many values.

    NumPy asks the system for huge pages (Linux, from 4 MiB on), torch does not: rows are gathered
    into a fresh buffer of 170 MB three times as fast, since the first write to each page of 4 KiB
    costs more than filling it.
    """
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return torch.from_numpy(memory[start : start + size]).view(dtype).view(*shape)
