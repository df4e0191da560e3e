"""Fit members to the optimum: every strength of L2 and every fold of the rows side by side.

A fit is a generator of visits: each says what is to be done with every block of rows of a split.
Fits whose rows are in memory run one after the other; those whose rows are not wait for each
other, so that one pass over the disk serves all of them.
"""

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from probekit.errors import OptionError
from probekit.features import FeatureView
from probekit.fitters.basis import Basis
from probekit.heads import TokenStates
from probekit.train.inputs import Inputs
from probekit.train.member import Member
from probekit.train.rows import block_bounds
from probekit.train.source import Source

SplitName = Literal["train", "dev"]
Take = Callable[[slice, Tensor], None]

HELD_ROWS = 65_536
"""Rows of a block that lies in memory, of whole examples."""


@dataclass(frozen=True, eq=False)
class Visit:
    """What a fit wants of the rows of a split: a function that takes block after block."""

    split: SplitName
    take: Take


Visits = Generator[Visit, None, None]


class Fit(Protocol):
    """A member being solved.

    Attributes:
        rows: where its rows come from.
    """

    rows: "HeadRows"

    def visits(self) -> Visits:
        """Solve, and leave the solution in the member."""


class HeadRows:
    """What one head makes of the rows of train and dev, in memory where there is room.

    Attributes:
        sources: what the head reads, by split.
        held: whether the rows are kept in memory after the first visit.
    """

    def __init__(self, member: Member, sources: Mapping[SplitName, Source], *, memory: int) -> None:
        """Decide whether there is room.

        Args:
            member: its head must not change before the last visit.
            sources: what it reads of each split.
            memory: bytes that the rows may take.
        """
        self.sources = sources
        self._member = member
        self._basis: Basis | None = None
        self._rows: dict[SplitName, Tensor] = {}
        width = member.probe.head.width
        size = sum(len(source.view) for source in sources.values()) * width * 4
        self.held = 2 * size <= memory

    def turn(self, basis: Basis) -> None:
        """Give rows in a basis from now on."""
        self._basis = basis
        self._rows = {split: basis.apply(rows) for split, rows in self._rows.items()}

    def view(self, split: SplitName) -> FeatureView:
        """Return the rows and targets of a split."""
        return self.sources[split].view

    def blocks(self, split: SplitName) -> Iterator[tuple[slice, Float[Tensor, "n w"]]]:
        """Yield the rows of a split that are held, in blocks of whole examples."""
        if split not in self._rows:
            self._rows[split] = self._read(split)
        rows, offsets = self._rows[split], self.view(split).offsets
        bounds = block_bounds(offsets, HELD_ROWS)
        for start, stop in itertools.pairwise(bounds):
            yield slice(start, stop), rows[start:stop]

    def _read(self, split: SplitName) -> Tensor:
        """Read all rows of a split, once."""
        source = self.sources[split]
        parts = [self.of(inputs) for inputs, _ in source.blocks()]
        width = self._member.probe.head.width
        empty = torch.zeros(0, width, device=source.rows.device)
        return torch.cat([empty if self._basis is None else self._basis.apply(empty), *parts])

    @torch.no_grad()
    def of(self, inputs: Inputs) -> Float[Tensor, "n w"]:
        """Return what the head makes of a block, in the basis if there is one."""
        member = self._member
        z = inputs.of(member.treatment, member.spec.layers)
        h = member.probe.head(z).float()
        return h if self._basis is None else self._basis.apply(h)


def run_fits(fits: Sequence[Fit], shared: Mapping[SplitName, Source]) -> None:
    """Run all fits to their end.

    Args:
        fits: of one stream.
        shared: sources with all the layers that fits without room in memory read.
    """
    for fit in fits:
        if fit.rows.held:
            for visit in fit.visits():
                for rows, block in fit.rows.blocks(visit.split):
                    visit.take(rows, block)
    _run_together([fit for fit in fits if not fit.rows.held], shared)


def _run_together(fits: Sequence[Fit], shared: Mapping[SplitName, Source]) -> None:
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


def refuse_tokens(z: object) -> None:
    """Refuse subwords where rows of several layers are needed."""
    if isinstance(z, TokenStates):
        raise OptionError("a mixture of layers needs rows, and this head reads subwords.")
