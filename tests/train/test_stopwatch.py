"""The stopwatch counts its stretches, on CUDA by events of the device's queue."""

from types import SimpleNamespace

import pytest
import torch

from probekit.base.tensors import Stopwatch


def test_cuda_events_are_read_after_the_work(monkeypatch):
    """A stand-in for a device: its queue is at second ``clock`` when an event is recorded."""
    queue = SimpleNamespace(clock=0.0, finished=0.0)

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing
            self.done = False

        def record(self, stream):
            assert stream is queue
            self.at = queue.clock

        def query(self):
            self.done = self.done or self.at <= queue.finished
            return self.done

        def synchronize(self):
            self.done = True

        def elapsed_time(self, last):
            assert last.done
            return 1e3 * (last.at - self.at)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: queue)
    watch = Stopwatch(torch.device("cuda:0"))
    for seconds in (1.0, 2.0):
        with watch.running():
            queue.clock += seconds
        queue.clock += 10  # of others
    assert len(watch._stretches) == 2
    queue.finished = queue.clock
    with watch.running():
        queue.clock += 4.0
    assert len(watch._stretches) == 1  # what the device has done is counted and forgotten
    assert watch.seconds == watch.seconds == pytest.approx(7.0)
