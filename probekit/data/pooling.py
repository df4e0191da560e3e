"""Write the rows that a batch's hidden states hold straight into a unit's buffer.

Which positions make which row is settled once per batch, in a ``PoolPlan``, and used for every
layer.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.machine.buffers import send

Pooling = Literal["first", "last", "mean"]


@dataclass(frozen=True, kw_only=True)
class PoolPlan:
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

    def to(self, states: torch.device, buffer: torch.device) -> "PoolPlan":
        """Return the plan with its indices where the states and the buffer are."""
        return replace(
            self,
            source=send(self.source, states),
            target=send(self.target, buffer),
            counts=None if self.counts is None else send(self.counts, states),
            totals=None if self.totals is None else send(self.totals, states),
        )


def pool(
    hidden: Float[Tensor, "batch time dim"], plan: PoolPlan, out: Float[Tensor, "slots dim"]
) -> None:
    """Write one layer's pooled rows of a batch into ``out``; rows outside the plan stay.

    Rows of words that the tokenizer deletes are in no plan, and parts of a mean are added up:
    start from a buffer of zeros.

    Args:
        hidden: one layer's states, right-padded.
        plan: made for this batch; its ``target`` counts rows of ``out``.
        out: the unit's buffer for this layer, of any float dtype and on any device. A value too
            large for that dtype becomes infinite; checking is the caller's task. Of float32 for a
            plan with ``totals``.
    """
    if not len(plan.target):
        return
    picked = hidden.flatten(0, 1).index_select(0, plan.source)
    if plan.counts is not None:
        picked = segment_mean(picked, plan.counts)
    if plan.counts is None or plan.totals is None:
        out.index_copy_(0, plan.target, picked.to(device=out.device, dtype=out.dtype))
        return
    assert out.dtype in (torch.float32, torch.float64), "parts of a mean add up in full precision"
    share = plan.counts.double() / plan.totals.double()
    part = picked * share[:, None].to(picked.dtype)
    # no row twice in a plan, so the order of additions is that of the batches
    out.index_add_(0, plan.target, part.to(device=out.device, dtype=out.dtype))


def segment_mean(
    values: Float[Tensor, "picks dim"], counts: Int64[Tensor, " rows"]
) -> Float[Tensor, "rows dim"]:
    """Return the float32 mean of each run of ``counts`` rows.

    The counts are at least one run, each at least 1, and add up to all rows. The sum runs in
    order, without atomic additions, so the result repeats bit for bit.
    """
    # `unsafe` skips a check of the counts that would make a GPU wait
    return torch.segment_reduce(values.float(), "mean", lengths=counts, axis=0, unsafe=True)
