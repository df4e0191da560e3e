"""A stopwatch for work that a device does after the call that asked for it has returned."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Stopwatch:
    """Adds up the seconds of some stretches of work.

    On CUDA, stretches lie between two events of the device's own queue, so that measuring does not
    wait, and work that others queued before is not counted.
    """

    def __init__(self, device: torch.device, *, among: int = 1) -> None:
        """Start at zero; the work is done for so many at once, and ``seconds`` is one's share."""
        self._device = device
        self._among = among
        self._seconds = 0.0
        self._stretches: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count what the block does."""
        if self._device.type != "cuda":
            start = time.perf_counter()
            yield
            self._seconds += time.perf_counter() - start
            return
        first, last = _event(), _event()
        stream = torch.cuda.current_stream(self._device)
        first.record(stream)
        yield
        last.record(stream)
        self._stretches.append((first, last))

    def add(self, seconds: float) -> None:
        """Count seconds that were measured elsewhere."""
        self._seconds += seconds

    @property
    def seconds(self) -> float:
        """The share of one in the seconds so far; on CUDA this waits for the work."""
        for first, last in self._stretches:
            last.synchronize()
            self._seconds += first.elapsed_time(last) / 1e3
        self._stretches.clear()
        return self._seconds / self._among


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
