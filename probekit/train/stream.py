"""A stream: the members that share a sample, an order and therefore every batch.

The order of training: blocks of sentences are shuffled, then sentences inside a buffer.

A split that fits one buffer is shuffled completely. The order depends on seed, epoch and sentence
lengths alone, never on how much memory there is, so a run that streams from disk and one that
holds its rows in memory take the same steps.
"""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Int64

from probekit.base.numbers.seeding import numpy_generator
from probekit.features import FeatureView
from probekit.probe.fitters import solves
from probekit.probe.heads.contract import Reads
from probekit.train.member import Member, MemberSpec, taken_over
from probekit.train.option_groups import DEFAULT_BATCH_SIZE, DEFAULT_EPOCHS, DEFAULT_EVALS, Steps
from probekit.train.source import Inputs, Source, Step
from probekit.train.steps import Stepper, steps_of
from probekit.train.stopwatch import Stopwatch

BLOCK_ROWS = 512
BUFFER_ROWS = 32_768


def epoch_order(
    lengths: Int64[np.ndarray, " sentences"], seed: int, epoch: int
) -> Int64[np.ndarray, " sentences"]:
    """Return the order in which one epoch visits the sentences.

    Args:
        lengths: rows of each sentence.
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
        self._parts: list[tuple[Generator[Inputs, None, None], Stopwatch, list[Stepper]]] = []
        for reads, source in sources.items():
            readers = [member for member in self.members if member.spec.head.reads == reads]
            reading = Stopwatch(device, among=len(readers))
            for member in readers:
                member.reading = reading
            lengths, size = spec.train.lengths, spec.batch_size
            order = batches(lengths, seed=spec.seed, epochs=spec.epochs, batch_size=size)
            self._orders.append(order)
            self._parts.append((source.batches(order, memory=ahead), reading, steps_of(readers)))
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
            "optimizers": [
                stepper.optimizer.state() for *_, steppers in self._parts for stepper in steppers
            ],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of a stream of the same spec; before the first step."""
        self.step, self.scored_at = state["step"], state["scored_at"]
        for order in self._orders:
            next(islice(order, self.step, self.step), None)  # past the batches that are done
        for member, saved in zip(self.members, state["members"], strict=True):
            member.restore(saved)
        steppers = [stepper for *_, steppers in self._parts for stepper in steppers]
        for stepper, saved in zip(steppers, state["optimizers"], strict=True):
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
