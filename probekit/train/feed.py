"""The batches of a stream, in order: gathered from memory, or read ahead from the cache."""

from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.machine.buffers import send
from probekit.base.machine.process import Heap
from probekit.store import StoredRows
from probekit.train.cached_rows import Rows, row_bytes

Step = Int64[np.ndarray, " _"]


@dataclass(frozen=True, eq=False)
class Batch:
    """What one training step reads.

    Attributes:
        step: its sentences, as positions in the view.
        z: features in float32, layer-major.
    """

    step: Step
    z: Float[Tensor, "layers rows dim"]


def feed(rows: Rows, steps: Iterator[Step], *, memory: int) -> Generator[Batch, None, None]:
    """Yield the batch of each step.

    Args:
        rows: where the rows come from.
        steps: sentences of each step, as positions in ``rows.view``.
        memory: bytes that rows read ahead may take; unused when the rows are in memory.
    """
    if rows.resident is not None:
        for step in steps:
            places = send(torch.from_numpy(rows.view.places(step)), rows.device)
            yield Batch(step, rows.resident.gather(places))
        return
    heap = Heap()
    for group, wanted, block in _read_ahead(rows, steps, memory):
        for step in group:
            heap.trim()
            local = torch.from_numpy(np.searchsorted(wanted, rows.view.places(step)))
            yield Batch(step, block.gather(send(local, rows.device)))
        del block  # while the next one is fetched, a third is being read


_Loaded = tuple[list[Step], Int64[np.ndarray, " wanted"], StoredRows]


def _read_ahead(rows: Rows, steps: Iterator[Step], memory: int) -> Iterator[_Loaded]:
    """Yield runs of steps with their rows, reading the next run while the last one is in use."""

    def load(group: list[Step]) -> _Loaded:
        wanted = np.unique(np.concatenate([rows.view.places(step) for step in group]))
        rows.prefetch(wanted)
        return group, wanted, rows.read(wanted).to(rows.device)

    with ThreadPoolExecutor(1, thread_name_prefix="probekit-read") as reader:
        waiting: Future[_Loaded] | None = None
        for group in _group(rows, steps, memory // 2):
            loading = reader.submit(load, group)
            if waiting is not None:
                yield waiting.result()
            waiting = loading
        if waiting is not None:
            yield waiting.result()


def _group(rows: Rows, steps: Iterator[Step], memory: int) -> Iterator[list[Step]]:
    """Yield runs of steps whose rows fit ``memory``, at least one step each."""
    per_row = row_bytes(rows.view) * len(rows.layers)
    lengths = rows.view.lengths
    group: list[Step] = []
    used = 0
    for step in steps:
        size = int(lengths[step].sum()) * per_row
        if group and used + size > memory:
            yield group
            group, used = [], 0
        group.append(step)
        used += size
    if group:
        yield group
