"""A stream: members that share a sample and every batch; and which rows are held in memory.

In training, blocks of sentences are shuffled, then sentences inside a buffer. A split that fits one
buffer is shuffled completely. The order depends on seed, epoch and sentence lengths alone, never on
how much memory there is, so a run that streams from disk and one that holds its rows in memory take
the same steps.
"""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64

from probekit.base.machine import free_memory
from probekit.base.numbers import numpy_generator
from probekit.base.tensors import Stopwatch
from probekit.features import FeatureView
from probekit.probe.fitters import solves
from probekit.probe.heads.contract import Reads
from probekit.train.member import Member, MemberSpec, taken_over
from probekit.train.option_groups import DEFAULT_BATCH_SIZE, DEFAULT_EPOCHS, DEFAULT_EVALS, Steps
from probekit.train.source import LAYOUTS, Inputs, Source, Step
from probekit.train.steps import Stepper, steps_of

BLOCK_ROWS = 512
BUFFER_ROWS = 32_768


def epoch_order(
    lengths: Int64[np.ndarray, " sentences"], seed: int, epoch: int
) -> Int64[np.ndarray, " sentences"]:
    """Return the order in which one epoch visits the sentences.

    Args:
        lengths: stored rows of each sentence.
        seed: the run's seed.
        epoch: counted from 0.
    """
    # Of 100,000 rows in sentences of 10 there are 196 blocks of about 51 sentences, and 64 blocks
    # fill a buffer:
    #
    #   blocks     3 1 0 2 ...            in a drawn order
    #   buffers    3 1 0 .. | 2 .. | ..   64 blocks each, the last one of 4
    #   order      the sentences of the first buffer, drawn; then those of the second, ...
    #
    # So steps beside each other read from the same 64 stretches of the disk. 30,000 rows are 59
    # blocks, which are one buffer.
    rng = numpy_generator(seed, "order", epoch)
    # Sentences of 3, 4 and 2 rows, cut at every 4: they begin at rows 0 3 7, which lie in the runs
    # 0 0 1, and a block begins wherever that number rises: [0 1] [2].
    ends = np.cumsum(lengths)
    starts_block = np.diff((ends - lengths) // BLOCK_ROWS, prepend=-1) > 0
    blocks = np.split(np.arange(len(lengths)), np.flatnonzero(starts_block)[1:])
    if len(blocks) * BLOCK_ROWS <= BUFFER_ROWS:
        return rng.permutation(len(lengths))
    blocks = [blocks[index] for index in rng.permutation(len(blocks))]
    per_buffer = BUFFER_ROWS // BLOCK_ROWS
    buffers = [
        np.concatenate(blocks[start : start + per_buffer])
        for start in range(0, len(blocks), per_buffer)
    ]
    return np.concatenate([rng.permutation(buffer) for buffer in buffers])


def batches(
    lengths: Int64[np.ndarray, " sentences"], *, seed: int, epochs: int, batch_size: int
) -> Iterator[Int64[np.ndarray, " batch"]]:
    """Yield the sentences of each step of all epochs; the last step of an epoch may be smaller."""
    for epoch in range(epochs):
        order = epoch_order(lengths, seed, epoch)
        for start in range(0, len(order), batch_size):
            yield order[start : start + batch_size]


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamSpec:
    """Members that take the same steps on the same sentences.

    Attributes:
        train: the drawn sentences.
        seed: decides initialisation, order and dropout.
        steps: which steps they take; a solver takes none.
        judge: rows that choose a checkpoint, or a strength where a split does; ``None`` is dev.
        members: the heads, of one kind of fitter.
        scored_first: score them before the first step as well, as they start from what was fitted.
    """

    train: FeatureView
    judge: FeatureView | None = None
    seed: int
    steps: Steps = field(default_factory=Steps)
    members: tuple[MemberSpec, ...] = field(default=())
    scored_first: bool = False

    @property
    def solved(self) -> bool:
        """Whether a solver fits the members."""
        return any(solves(member.fitter) for member in self.members)

    @property
    def epochs(self) -> int:
        """Passes over the sentences; none by a solver."""
        return 0 if self.solved else self.steps.epochs or DEFAULT_EPOCHS

    @property
    def batch_size(self) -> int:
        """Sentences per step."""
        return self.steps.batch_size or DEFAULT_BATCH_SIZE

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one epoch."""
        return math.ceil(self.train.n_examples / self.batch_size)

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""
        return self.epochs * self.steps_per_epoch

    @property
    def points(self) -> tuple[int, ...]:
        """The steps after which dev is scored: evenly spaced, the last step included.

        A run with fewer steps than evaluations is scored after each of them; one without steps, or
        that starts from what was fitted, as it begins.
        """
        total, evals = self.total_steps, self.steps.evals or DEFAULT_EVALS
        first = min(total, 1)
        points = {max(first, round(total * n / evals)) for n in range(1, evals + 1)}
        return tuple(sorted(points | {0} if self.scored_first else points))


class Stream:
    """A stream in training.

    Attributes:
        step: steps done.
        scored_at: the step after which its members were scored last; -1 before that.
    """

    def __init__(self, spec: StreamSpec, sources: Mapping[Reads, Source], *, ahead: int) -> None:
        """Build the members.

        Args:
            spec: what to train.
            sources: what its members read of ``spec.train``.
            ahead: bytes that the rows read ahead of one source may take.
        """
        self.spec = spec
        device = next(iter(sources.values())).device
        self.members = tuple(
            Member(
                member,
                taken_over(member.normalize, member.start or {}, member.layers, device)
                or sources[member.head.reads].fitted(member.normalize),
                seed=spec.seed,
                train=spec.train,
                device=device,
                tuned=sources[member.head.reads].tuned,
            )
            for member in spec.members
        )
        # Heads that read rows and heads that read subwords have batches, and times, of their own.
        self._orders: list[Iterator[Step]] = []
        self._steppers: list[Stepper] = []
        self._parts: list[tuple[Generator[Inputs, None, None], Stopwatch, list[Stepper]]] = []
        for reads, source in sources.items():
            readers = [member for member in self.members if member.spec.head.reads == reads]
            reading = Stopwatch(device, among=len(readers))
            for member in readers:
                member.reading = reading
            lengths, size = spec.train.stored_lengths, spec.batch_size
            order = batches(lengths, seed=spec.seed, epochs=spec.epochs, batch_size=size)
            self._orders.append(order)
            steppers = steps_of(readers)
            self._steppers += steppers
            self._parts.append((source.batches(order, memory=ahead), reading, steppers))
        self.points = spec.points
        self.step, self.scored_at = 0, -1

    @property
    def finished(self) -> tuple[Member, ...]:
        """The members that are trained and scored to the end: all or none, as they go together."""
        return self.members if self.scored_at == self.points[-1] else ()

    def advance(self, step: int, stepped: Callable[["Stream"], None]) -> None:
        """Train every member up to ``step``.

        Args:
            step: steps of the run.
            stepped: called after each of them.
        """
        for member in self.members:
            member.probe.train()
        total = self.spec.total_steps
        over = all(member.diverged for member in self.members)
        parts = [] if over else self._parts  # nothing is read for what has diverged
        while self.step < step:
            remaining = 1 - self.step / total
            for read, reading, steppers in parts:
                with reading.running():
                    inputs = next(read)
                for stepper in steppers:
                    stepper.step(inputs, remaining=remaining)
            self.step += 1
            stepped(self)
        for member in self.members:
            member.probe.eval()

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs to go on as if nothing had been between."""
        return {
            "step": self.step,
            "scored_at": self.scored_at,
            "members": [member.state() for member in self.members],
            "optimizers": [stepper.optimizer.state() for stepper in self._steppers],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of a stream of the same spec; before the first step."""
        self.step, self.scored_at = state["step"], state["scored_at"]
        for order in self._orders:
            next(islice(order, self.step, self.step), None)  # past the batches that are done
        for member, saved in zip(self.members, state["members"], strict=True):
            member.restore(saved)
        for stepper, saved in zip(self._steppers, state["optimizers"], strict=True):
            stepper.optimizer.restore(saved)

    def close(self) -> None:
        """End the reading ahead."""
        for read, *_ in self._parts:
            read.close()


def union(streams: Sequence[StreamSpec]) -> dict[Reads, tuple[int, ...]]:
    """Return all layers that a member of some stream reads, ascending, by what is read of them."""
    members = [member for stream in streams for member in stream.members]
    return {
        reads: tuple(sorted({n for m in members if m.head.reads == reads for n in m.layers}))
        for reads in sorted({member.head.reads for member in members})
    }


_LEAST_READ_AHEAD, _MOST_READ_AHEAD = 32 * 2**20, 128 * 2**20
"""Bytes of rows read ahead, of all sources at least and of one at most: enough for the disk to have
work; more would take memory from heads."""

_MEMORY_SHARE = 0.5
_DECODED_SHARE = 0.5
"""Share of what is left that rows may take decoded: the next ones need room too."""


# 10 GB, a CPU; 13 layers of 768 channels, stored as int8 (772 bytes a row and layer with its norm,
# 3,072 decoded). Views in the order in which they ask:
#
#   dev, 10,000 rows       stored 0.10 GB, decoded 0.40 GB, which is at most half of 10 GB:
#                          held decoded, 9.60 GB left
#   train, 100,000 rows    stored 1.01 GB, decoded 3.99 GB, at most half of 9.60 GB:
#                          held decoded, 5.61 GB left
#   train of other rows,   decoded 3.99 GB is more than half of 5.61 GB: held as stored,
#   as many                4.60 GB left
#   a fourth, 500,000      stored 5.03 GB is more than 4.60 GB: read from the disk, each time
#
# float16 rows are held as they are stored, 1,536 bytes a row and layer, or not at all.
class Residency:
    """Hands out rows of views, in memory while there is room, and the same rows only once.

    int8 rows are held decoded where that leaves room for others, on a CPU; else as they are stored;
    else they stay on disk.

    Attributes:
        device: where the rows are wanted.
        left: bytes that are still free.
    """

    def __init__(self, memory: int | None, device: torch.device) -> None:
        """Start with ``memory`` bytes; ``None`` is half of what the machine has free now."""
        self.device = device
        self.left = default_memory(device) if memory is None else memory
        self._known: dict[tuple[int, Reads, tuple[int, ...]], Source] = {}

    def source(
        self, view: FeatureView, reads: Reads, layers: tuple[int, ...], *, once: bool = False
    ) -> Source:
        """Return what heads read of a view; loads it if it fits.

        Args:
            view: the rows that are predicted.
            reads: the rows themselves, or the subwords that they are made of.
            layers: layers that some head reads.
            once: it is read once, so straight from the cache.
        """
        key = (id(view), reads, layers)
        if key in self._known:
            return self._known[key]
        layout = LAYOUTS[reads](view) if reads in LAYOUTS else None
        read = view if layout is None else layout.view
        stored, decoded = resident_bytes(read, len(layers))
        decode = self.device.type == "cpu" and stored < decoded <= _DECODED_SHARE * self.left
        size = decoded if decode else stored
        fits = size <= self.left and not once
        self.left -= size if fits else 0
        self._known[key] = Source(
            view, layers, device=self.device, resident=fits, decoded=decode, layout=layout
        )
        return self._known[key]

    def sources(
        self, view: FeatureView, specs: Sequence[StreamSpec], *, once: bool = False
    ) -> dict[Reads, Source]:
        """Return what the members of some streams read of a view, by kind."""
        return {
            reads: self.source(view, reads, layers, once=once)
            for reads, layers in union(specs).items()
        }

    def share(
        self, dev: FeatureView, specs: Sequence[StreamSpec]
    ) -> tuple[dict[Reads, Source], list[dict[Reads, Source]]]:
        """Return what is read of dev, and what each stream reads; those over one view share it.

        Memory goes to the view that is read most often first: dev once per evaluation, the rows of
        train once per epoch and stream.
        """
        # Dev is scored five times, and two streams read one view of train for 3 epochs each: train
        # is read six times and gets memory first. A third stream over a view of its own, for 4
        # epochs, comes after dev.
        times = {id(dev): max((len(spec.points) for spec in specs), default=0)}
        for spec in specs:
            times[id(spec.train)] = times.get(id(spec.train), 0) + spec.epochs
        readers = {id(dev): (dev, list(specs))}
        for spec in specs:
            if spec.train is not dev:
                readers.setdefault(id(spec.train), (spec.train, []))[1].append(spec)
        shared = {
            view: self.sources(*readers[view])
            for view in sorted(readers, key=lambda view: -times[view])
        }
        trained = [
            {reads: shared[id(spec.train)][reads] for reads in union([spec])} for spec in specs
        ]
        return shared[id(dev)], trained

    def read_ahead(self, n_sources: int) -> int:
        """Return the bytes that the rows read ahead of each of some sources may take."""
        return min(max(self.left, _LEAST_READ_AHEAD) // max(n_sources, 1), _MOST_READ_AHEAD)


def resident_bytes(view: FeatureView, n_layers: int) -> tuple[int, int]:
    """Return the bytes that the rows of a view take in memory: as they are stored, and decoded.

    int8 is decoded as float32, which a CPU gathers faster: ``benchmarks/int8_rows.py``.
    """
    decoded = len(view) * n_layers * view.array.dim * view.array.dtype.itemsize
    return view.array.stored_nbytes(view.rows, n_layers), decoded


def default_memory(device: torch.device) -> int:
    """Return the bytes that training takes of a device unless told otherwise: half of the free."""
    return int(_MEMORY_SHARE * free_memory(device))
