"""Write the rows that a batch's hidden states hold straight into a unit's buffer.

Which positions make which row is settled once per batch, in ``Picks``, and used for every layer.
"""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.machine.buffers import send

Pooling = Literal["first", "last", "mean"]


@dataclass(frozen=True)
class Picks:
    """Which positions of a batch make which rows of the output buffer.

    Attributes:
        source: positions in the batch's states seen as (B * T, D). Without ``counts``, one for
            each row; with them, each row's positions one after the other.
        target: row of the buffer that each pooled row is written to; no row twice.
        counts: how many positions each row averages, at least 1; ``None`` takes one position as
            it is.
        totals: for rows whose positions may lie in several batches: how many they are over all
            batches. What this batch has of a mean is then added to what the buffer holds.
    """

    source: Int64[Tensor, " picks"]
    target: Int64[Tensor, " rows"]
    counts: Int64[Tensor, " rows"] | None = None
    totals: Int64[Tensor, " rows"] | None = None

    @classmethod
    def of(cls, *arrays: Int64[np.ndarray, " _"]) -> Self:
        """Take over arrays: those of the attributes, in their order."""
        return cls(*map(torch.from_numpy, arrays))

    def to(self, states: torch.device, buffer: torch.device) -> "Picks":
        """Return the same, with indices where the states and the buffer are."""
        averages = (self.counts, self.totals)
        sent = (None if numbers is None else send(numbers, states) for numbers in averages)
        return Picks(send(self.source, states), send(self.target, buffer), *sent)


def pool(
    hidden: Float[Tensor, "batch time dim"], picks: Picks, out: Float[Tensor, "slots dim"]
) -> None:
    """Write one layer's pooled rows of a batch into ``out``; rows that are not picked stay.

    Rows of words that the tokenizer deletes never are, and parts of a mean are added up: start
    from a buffer of zeros.

    Args:
        hidden: one layer's states, right-padded.
        picks: made for this batch; its ``target`` counts rows of ``out``.
        out: the unit's buffer for this layer, of any float dtype and on any device. A value too
            large for that dtype becomes infinite; checking is the caller's task. Of float32 for a
            mean over several batches (``totals``).
    """
    if not len(picks.target):
        return
    picked = hidden.flatten(0, 1).index_select(0, picks.source)
    if picks.counts is not None:
        picked = segment_mean(picked, picks.counts)
    if picks.counts is None or picks.totals is None:
        out.index_copy_(0, picks.target, picked.to(device=out.device, dtype=out.dtype))
        return
    assert out.dtype in (torch.float32, torch.float64), "parts of a mean add up in full precision"
    share = picks.counts.double() / picks.totals.double()
    part = picked * share[:, None].to(picked.dtype)
    # no row is picked twice, so the order of additions is that of the batches
    out.index_add_(0, picks.target, part.to(device=out.device, dtype=out.dtype))


def segment_mean(
    values: Float[Tensor, "picks dim"], counts: Int64[Tensor, " rows"]
) -> Float[Tensor, "rows dim"]:
    """Return the float32 mean of each run of ``counts`` rows.

    The counts are at least one run, each at least 1, and add up to all rows. The sum runs in
    order, without atomic additions, so the result repeats bit for bit.
    """
    # `unsafe` skips a check of the counts that would make a GPU wait
    return torch.segment_reduce(values.float(), "mean", lengths=counts, axis=0, unsafe=True)
