"""The batches of a stream, in order: gathered from memory, or read ahead from the cache."""

from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from probekit.ragged import bounds_of
from probekit.train.rows import Rows, gather, row_bytes

Step = Int64[np.ndarray, " _"]


@dataclass(frozen=True, eq=False)
class Batch:
    """The rows of one training step.

    Attributes:
        z: features in float32, layer-major.
        targets: class of each row.
        offsets: bounds of the sentences within the rows.
    """

    z: Float[Tensor, "layers rows dim"]
    targets: Int64[Tensor, " rows"]
    offsets: Int64[Tensor, " bounds"]


def feed(rows: Rows, steps: Iterator[Step], *, memory: int) -> Generator[Batch, None, None]:
    """Yield the batch of each step.

    Args:
        rows: where the rows come from.
        steps: sentences of each step, as positions in ``rows.view``.
        memory: bytes that rows read ahead may take; unused when the rows are in memory.
    """
    targets = torch.from_numpy(rows.view.targets).to(rows.device)
    if rows.resident is not None:
        for step in steps:
            places = rows.view.places(step)
            z = gather(rows.resident, torch.from_numpy(places).to(rows.device))
            yield _batch(rows, z, targets, places, step)
        return
    for group, wanted, block in _read_ahead(rows, steps, memory):
        for step in group:
            places = rows.view.places(step)
            local = torch.from_numpy(np.searchsorted(wanted, places)).to(rows.device)
            yield _batch(rows, gather(block, local), targets, places, step)


def _batch(
    rows: Rows,
    z: Float[Tensor, "layers rows dim"],
    targets: Int64[Tensor, " all"],
    places: Int64[np.ndarray, " rows"],
    step: Step,
) -> Batch:
    offsets = torch.from_numpy(bounds_of(rows.view.lengths[step])).to(rows.device)
    return Batch(z, targets[torch.from_numpy(places).to(rows.device)], offsets)


_Loaded = tuple[list[Step], Int64[np.ndarray, " wanted"], Shaped[Tensor, "layers wanted dim"]]


def _read_ahead(rows: Rows, steps: Iterator[Step], memory: int) -> Iterator[_Loaded]:
    """Yield runs of steps with their rows, reading the next run while the last one is in use."""

    def load(group: list[Step]) -> _Loaded:
        wanted = np.unique(np.concatenate([rows.view.places(step) for step in group]))
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
