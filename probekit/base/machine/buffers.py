"""Large buffers in memory, memory that is used again, and copies of it to a device."""

import math
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

_ALIGNMENT = mmap.PAGESIZE
"""A disk fetches whole pages (`probekit.store.files`); torch aligns its tensors to less."""

Buffers = Mapping[str, tuple[Sequence[int], torch.dtype]]
"""Shape and dtype of each buffer, by name."""


def empty_buffer(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return an uninitialised tensor in the CPU's memory, for many values.

    NumPy asks the system for huge pages (Linux, from 4 MiB on), torch does not: the first writes
    then meet far fewer pages that the system has yet to find.
    """
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return torch.from_numpy(memory[start : start + size]).view(dtype).view(*shape)


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return a tensor of the host on a device, without waiting for the device's queue.

    Only for memory that is not pinned: its bytes are taken before this returns.
    """
    return tensor.to(device, non_blocking=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReusedMemory:
    """Memory that one thread takes and another may give back.

    What is given back serves again: the first write to memory that the system has just found takes
    many times as long as the next one, above all in a virtual machine.

    Attributes:
        pinned: whether it is memory that CUDA copies to fastest.
    """

    pinned: bool = False
    _spare: list[Tensor] = field(default_factory=list, init=False)

    def take(self, size: int) -> Tensor:
        """Return at least ``size`` bytes, as an uninitialised uint8 tensor."""
        memory = self._spare.pop() if self._spare else None
        if memory is not None and len(memory) >= size:
            return memory
        del memory  # before there is more
        if self.pinned:
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)
        return empty_buffer((size,), torch.uint8)

    def give_back(self, memory: Tensor) -> None:
        """Keep what `take` returned for the next one; nothing may use it any more."""
        self._spare.append(memory)


def carve(memory: Tensor, buffers: Buffers) -> dict[str, Tensor]:
    """Return uninitialised tensors of the given shapes and dtypes, side by side in ``memory``."""
    places = pairwise(carved_bounds(buffers))
    return {
        name: memory[start:stop].view(dtype)[: math.prod(shape)].view(*shape)
        for (name, (shape, dtype)), (start, stop) in zip(buffers.items(), places, strict=True)
    }


def carved_bounds(buffers: Buffers) -> list[int]:
    """Return where `carve` begins each buffer, aligned, and at the end the bytes that it needs."""
    sizes = (math.prod(shape) * dtype.itemsize for shape, dtype in buffers.values())
    return [*accumulate((-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes), initial=0)]
