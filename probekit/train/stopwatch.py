"""A stopwatch for work that a device does after the call that asked for it has returned."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


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
