"""A stream: the members that share a sample, an order and therefore every batch."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from probekit.features import FeatureView
from probekit.train.feed import feed
from probekit.train.inputs import Inputs
from probekit.train.member import Member, MemberSpec
from probekit.train.normalize import fit_treatment
from probekit.train.order import batches, evaluation_steps, steps_per_epoch
from probekit.train.rows import Rows

Report = Callable[[int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamSpec:
    """Members that take the same steps on the same sentences.

    Attributes:
        train: the drawn sentences.
        seed: decides initialisation, order and dropout.
        epochs: passes over them.
        batch_size: sentences per step.
        evals: number of evenly spaced points at which dev is scored.
        members: the heads.
    """

    train: FeatureView
    seed: int
    epochs: int = 50
    batch_size: int = 16
    evals: int = 10
    members: tuple[MemberSpec, ...] = field(default=())

    @property
    def layers(self) -> tuple[int, ...]:
        """All layers that a member reads, ascending."""
        return tuple(sorted({layer for member in self.members for layer in member.layers}))

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one epoch."""
        return steps_per_epoch(self.train.n_examples, self.batch_size)

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""
        return self.epochs * self.steps_per_epoch


class Stream:
    """A stream in training."""

    def __init__(self, spec: StreamSpec, rows: Rows, *, memory: int) -> None:
        """Build the members; ``memory`` bounds the bytes of rows read ahead."""
        self.spec = spec
        self.rows = rows
        treatments = {
            name: fit_treatment(name, rows) for name in {m.normalize for m in spec.members}
        }
        self.members = tuple(
            Member(
                member,
                treatments[member.normalize],
                seed=spec.seed,
                dim=spec.train.array.dim,
                n_classes=len(spec.train.labels),
                device=rows.device,
            )
            for member in spec.members
        )
        self.points = evaluation_steps(spec.total_steps, spec.evals)
        self.step = 0
        steps = batches(
            spec.train.lengths, seed=spec.seed, epochs=spec.epochs, batch_size=spec.batch_size
        )
        self._batches = feed(rows, steps, memory=memory)

    def advance(self, step: int, report: Report) -> None:
        """Train every member up to ``step``."""
        for member in self.members:
            member.train()
        while self.step < step:
            start = time.perf_counter()
            batch = next(self._batches)
            inputs = Inputs(batch.z, self.rows.layers)
            share = (time.perf_counter() - start) / len(self.members)
            remaining = 1 - self.step / self.spec.total_steps
            for member in self.members:
                z = inputs.of(member.treatment, member.spec.layers)
                member.step(z, batch.targets, batch.offsets, remaining=remaining)
                member.seconds += share
            self.step += 1
            report(len(self.members))
        for member in self.members:
            member.eval()

    def close(self) -> None:
        """End the reading ahead."""
        self._batches.close()


def union(streams: Sequence[StreamSpec]) -> tuple[int, ...]:
    """Return all layers that a member of some stream reads, ascending."""
    return tuple(sorted({layer for stream in streams for layer in stream.layers}))
