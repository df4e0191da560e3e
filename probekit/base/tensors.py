"""Tensors: float32 arithmetic, ways between devices, and the seconds that steps take."""

import math
import mmap
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


def full(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return x in float32; float32 and float64 pass through, without a copy."""
    return x.float() if x.element_size() < 4 else x


def operand(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return x as a matrix product with float32 weights needs it.

    Under autocast x keeps its dtype, since the product casts both sides anyway; otherwise half
    precision becomes float32.
    """
    return x if torch.is_autocast_enabled(x.device.type) else full(x)


def no_autocast(x: Tensor) -> AbstractContextManager[None]:
    """Return a context in which products on x's device keep the dtype of their operands."""
    return torch.autocast(x.device.type, enabled=False)


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


class Stopwatch:
    """Adds up the seconds of some stretches of work.

    On CUDA, stretches lie between two events of the device's own queue, so that measuring does not
    wait, and work that others queued before is not counted.
    """

    def __init__(self, device: torch.device, *, among: int = 1) -> None:
        """Start at zero; the work is done for so many at once, and ``seconds`` is one's share."""
        self._device, self._among = device, among
        self._seconds = 0.0
        self._stretches: deque[tuple[Any, Any]] = deque()  # the events around each

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count what the block does."""
        if self._device.type != "cuda":
            start = time.perf_counter()
            yield
            self._seconds += time.perf_counter() - start
            return
        make: Any = torch.cuda.Event  # torch types neither its events' making nor their questions
        first, last = make(enable_timing=True), make(enable_timing=True)
        stream = torch.cuda.current_stream(self._device)
        first.record(stream)
        yield
        last.record(stream)
        self._stretches.append((first, last))
        while self._stretches and self._stretches[0][1].query():  # or they would pile up
            self._count_oldest()

    @property
    def seconds(self) -> float:
        """The share of one in the seconds so far; on CUDA this waits for the work."""
        while self._stretches:
            self._count_oldest()
        return self._seconds / self._among

    def add(self, seconds: float) -> None:
        """Count what was spent for one before, in a process that is gone."""
        self._seconds += seconds * self._among

    def _count_oldest(self) -> None:
        # Events are passed in the order in which the device reaches them: what was queued first is
        # done first, and waiting for the last event of a stretch waits for nothing behind it.
        first, last = self._stretches.popleft()
        last.synchronize()
        self._seconds += first.elapsed_time(last) / 1e3
