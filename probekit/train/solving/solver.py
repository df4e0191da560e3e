"""Fit members to the optimum: every strength of L2 and every fold of the rows side by side.

A fit is a generator of visits: each says what is to be done with every block of rows of a split.
Fits whose rows are in memory run one after the other; those whose rows are not wait for each
other, so that one pass over the disk serves all of them.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from probekit.base.numbers.precision import full
from probekit.base.numbers.ragged import block_bounds
from probekit.features import FeatureView
from probekit.train.inputs import Inputs
from probekit.train.member import Member
from probekit.train.source import Source
from probekit.train.stopwatch import Stopwatch

SplitName = Literal["train", "judge"]
Take = Callable[[slice, Tensor], None]
Turn = Callable[[Tensor], Tensor]

HELD_ROWS = 8_192
"""Rows of a block that lies in memory, of whole examples."""


@dataclass(frozen=True, eq=False)
class Visit:
    """What a fit wants of the rows of a split: a function that takes block after block."""

    split: SplitName
    take: Take


Visits = Generator[Visit, None, None]


@runtime_checkable
class Fit(Protocol):
    """A member being solved.

    Attributes:
        rows: where its rows come from.
        best_score: the best so far on what chooses; None before the first, or without any.
    """

    rows: "SplitRows"

    @property
    def best_score(self) -> float | None:
        """Return it."""

    def visits(self) -> Visits:
        """Solve, and leave the solution in the member."""


class SplitRows(ABC):
    """What one fit reads of train and of the split that judges, in memory where there is room.

    Attributes:
        sources: what its head reads, by split.
        held: whether the rows are kept in memory after the first visit.
    """

    row_axis: ClassVar[int]

    def __init__(
        self, member: Member, sources: Mapping[SplitName, Source], *, width: int, memory: int
    ) -> None:
        """Decide whether there is room.

        Args:
            member: its head must not change before the last visit.
            sources: what it reads of each split.
            width: values of a row.
            memory: bytes that the rows may take.
        """
        self.sources = sources
        self.member = member
        self._turn: Turn | None = None
        self._rows: dict[SplitName, Tensor] = {}
        size = sum(len(source.view) for source in sources.values()) * width * 4
        self.held = 2 * size <= memory

    def release(self) -> None:
        """Let go of the rows that are held."""
        self._rows.clear()

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return next(iter(self.sources.values())).rows.device

    def turn(self, turn: Turn) -> None:
        """Give rows through a function from now on, those that are held as well."""
        self._turn = turn
        for split in list(self._rows):
            self._rows[split] = self._joined(
                split, (turn(block) for _, block in self.blocks(split))
            )

    def view(self, split: SplitName) -> FeatureView:
        """Return the rows and targets of a split."""
        return self.sources[split].view

    def blocks(self, split: SplitName) -> Iterator[tuple[slice, Tensor]]:
        """Yield the rows of a split that are held, in blocks of whole examples."""
        if split not in self._rows:
            source = self.sources[split]
            self._rows[split] = self._joined(
                split, (self.of(inputs) for inputs, _ in source.blocks())
            )
        bounds = block_bounds(self.view(split).offsets, HELD_ROWS)
        for start, stop in itertools.pairwise(bounds):
            yield slice(start, stop), self._rows[split].narrow(self.row_axis, start, stop - start)

    def _joined(self, split: SplitName, blocks: Iterable[Tensor]) -> Tensor:
        """Return the blocks of a split as one, without a second copy of all of them."""
        parts = iter(blocks)
        first = next(parts)
        shape = list(first.shape)
        shape[self.row_axis] = len(self.view(split))
        joined = first.new_empty(shape)
        start = 0
        for part in itertools.chain([first], parts):
            joined.narrow(self.row_axis, start, part.shape[self.row_axis]).copy_(part)
            start += part.shape[self.row_axis]
        return joined

    @torch.no_grad()
    def of(self, inputs: Inputs) -> Tensor:
        """Return what is read of a block."""
        rows = self.read(inputs)
        return rows if self._turn is None else self._turn(rows)

    @abstractmethod
    def read(self, inputs: Inputs) -> Tensor:
        """Return the rows of a block, as they are."""


class HeadRows(SplitRows):
    """The rows h of a head that trains nothing, (n, width)."""

    row_axis = 0

    def read(self, inputs: Inputs) -> Float[Tensor, "n width"]:
        """Return what the head makes of a block."""
        z = inputs.of(self.member.normalization, self.member.spec.layers)
        return full(self.member.probe.head(z))


class LayerRows(SplitRows):
    """The rows of all layers that a head mixes, (layers, n, dim)."""

    row_axis = 1

    def read(self, inputs: Inputs) -> Float[Tensor, "layers n dim"]:
        """Return the treated layers of a block."""
        z = inputs.of(self.member.normalization, self.member.spec.layers)
        assert isinstance(z, Tensor), "a mixture of layers reads rows"
        return full(z.transpose(0, 1))


def run_fits(
    fits: Sequence[Fit],
    shared: Mapping[SplitName, Source],
    *,
    done: Callable[[], None],
    at: Callable[[Fit], None],
) -> None:
    """Run all fits to their end.

    Args:
        fits: of one stream, which read the same kind of thing.
        shared: sources with all the layers that fits without room in memory read.
        done: called when a fit is done.
        at: called with a fit between its passes over rows.
    """
    for fit in fits:
        if fit.rows.held:
            with fit.rows.member.stepping.running():
                for visit in fit.visits():
                    at(fit)
                    for rows, block in fit.rows.blocks(visit.split):
                        visit.take(rows, block)
            at(fit)
            fit.rows.release()
            done()
    apart = [fit for fit in fits if not fit.rows.held]
    if not apart:
        return
    stopwatch = Stopwatch(apart[0].rows.device, among=len(apart))
    for fit in apart:
        fit.rows.member.stepping = stopwatch
    with stopwatch.running():
        _run_together(apart, shared, at)
    for _ in apart:
        done()


def _run_together(
    fits: Sequence[Fit], shared: Mapping[SplitName, Source], at: Callable[[Fit], None]
) -> None:
    """Run fits whose rows stay on the disk: one pass over a split serves all that wait for it."""
    running = {id(fit): (fit, fit.visits()) for fit in fits}
    waiting = {key: next(visits) for key, (_, visits) in running.items()}
    while waiting:
        split = next(iter(waiting.values())).split
        served = {key: visit for key, visit in waiting.items() if visit.split == split}
        start = 0
        for inputs, examples in shared[split].blocks():
            view = shared[split].view
            rows = slice(start, start + int(view.lengths[examples].sum()))
            start = rows.stop
            for key, visit in served.items():
                visit.take(rows, running[key][0].rows.of(inputs))
        for key in served:
            at(running[key][0])
            found = next(running[key][1], None)
            if found is None:
                del waiting[key]
            else:
                waiting[key] = found


def offsets_of(view: FeatureView, rows: slice, device: torch.device) -> Tensor:
    """Return the bounds of the examples that a block of rows is made of, from 0 on."""
    first, last = np.searchsorted(view.offsets, [rows.start, rows.stop])
    bounds = view.offsets[first : last + 1] - rows.start
    return torch.from_numpy(bounds).to(device)
