"""What one fit to the optimum reads of its splits, and how it says what it wants of them.

A fit is a generator of visits: each says what is to be done with every block of rows of a split.
"""

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from probekit.base.numbers.ragged import block_bounds
from probekit.features import FeatureView
from probekit.train.source import Inputs, Source

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


class SplitRows:
    """What one fit reads of train and of the split that judges, in memory where there is room.

    Attributes:
        held: whether the rows are kept in memory after the first visit.
        device: where the rows are.
    """

    def __init__(
        self,
        sources: Mapping[SplitName, Source],
        read: Callable[[Inputs], Tensor],
        *,
        axis: int,
        width: int,
        memory: int,
    ) -> None:
        """Decide whether there is room.

        Args:
            sources: what its head reads of each split.
            read: what the fit makes of it, by values that do not change before the last visit.
            axis: of the rows in that.
            width: values of a row.
            memory: bytes that the rows may take.
        """
        self._sources, self._read, self._axis = sources, read, axis
        self.device = sources["train"].device
        self._turn: Turn | None = None
        self._rows: dict[SplitName, Tensor] = {}
        size = sum(len(source.view) for source in sources.values()) * width * 4
        self.held = 2 * size <= memory

    def release(self) -> None:
        """Let go of the rows that are held."""
        self._rows.clear()

    def turn(self, turn: Turn) -> None:
        """Give rows through a function from now on, those that are held as well."""
        self._turn = turn
        for split in list(self._rows):
            turned = (turn(block) for _, block in self.blocks(split))
            self._rows[split] = self._joined(split, turned)

    def view(self, split: SplitName) -> FeatureView:
        """Return the rows and targets of a split."""
        return self._sources[split].view

    def blocks(self, split: SplitName) -> Iterator[tuple[slice, Tensor]]:
        """Yield the rows of a split that are held, in blocks of whole examples."""
        if split not in self._rows:
            source = self._sources[split]
            self._rows[split] = self._joined(split, (self.of(inputs) for inputs in source.blocks()))
        bounds = block_bounds(self.view(split).offsets, HELD_ROWS)
        for start, stop in itertools.pairwise(bounds):
            yield slice(start, stop), self._rows[split].narrow(self._axis, start, stop - start)

    def _joined(self, split: SplitName, blocks: Iterable[Tensor]) -> Tensor:
        """Return the blocks of a split as one, without a second copy of all of them."""
        parts = iter(blocks)
        first = next(parts)
        before, after = first.shape[: self._axis], first.shape[self._axis + 1 :]
        joined = first.new_empty(*before, len(self.view(split)), *after)
        start = 0
        for part in itertools.chain([first], parts):
            joined.narrow(self._axis, start, part.shape[self._axis]).copy_(part)
            start += part.shape[self._axis]
        return joined

    @torch.no_grad()
    def of(self, inputs: Inputs) -> Tensor:
        """Return what is read of a block."""
        rows = self._read(inputs)
        return rows if self._turn is None else self._turn(rows)
