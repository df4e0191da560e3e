"""How the members of a stream take a step: linear probes all at once, every other by itself."""

from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.train.inputs import Inputs
from probekit.train.linear_probes import LinearProbes, is_linear_probe
from probekit.train.member import Member
from probekit.train.optimizer import Optimizer


class OwnSteps:
    """One member, stepping by itself."""

    def __init__(self, member: Member) -> None:
        """Start its optimizer."""
        self._member = member
        self._optimizer = Optimizer([member.probe], member.spec)

    def step(
        self,
        inputs: Inputs,
        targets: Int64[Tensor, " rows"] | Float[Tensor, " rows"],
        offsets: Int64[Tensor, " bounds"],
        *,
        remaining: float,
    ) -> None:
        """Take one step, unless the member has diverged.

        A probe without trainable values (the frozen output head on one layer) only notes its loss.

        Args:
            inputs: what is read of the batch.
            targets: of its rows.
            offsets: bounds of its sentences in them.
            remaining: the share of the run that is left, in (0, 1].
        """
        member, trains = self._member, not self._optimizer.idle
        if member.diverged:
            return
        z = inputs.of(member.normalization, member.spec.layers)
        with member.stepping.running():
            with torch.set_grad_enabled(trains):
                logits = member.probe.logits(z, member.dropout)
                loss = member.probe.decoder.loss(logits, targets, offsets)
            if trains:
                torch.autograd.backward(loss)
            self._optimizer.step(remaining=remaining)
            member.count(loss.detach())


Steps = OwnSteps | LinearProbes
"""One member, or several, with the optimizer that updates them."""


def steps_of(members: Sequence[Member]) -> list[Steps]:
    """Divide members of a stream, which read the same kind of thing, into those that step together.

    Their optimizers start here, and linear probes get their stopwatch. How a member steps depends
    on itself alone.
    """
    together: dict[Hashable, list[Member]] = {}
    found: list[Steps] = []
    for member in members:
        if is_linear_probe(member):
            together.setdefault(_shared(member), []).append(member)
        else:
            found.append(OwnSteps(member))
    return [*found, *map(LinearProbes, together.values())]


def _shared(member: Member) -> Hashable:
    """Return what linear probes must have in common to step together."""
    spec = member.spec
    rates = spec.lr, spec.rates, spec.weight_decay
    return member.probe.head.width, spec.decoder, spec.optimizer, spec.schedule, *rates
