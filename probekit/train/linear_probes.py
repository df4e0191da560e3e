"""Linear probes that take their steps together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from probekit.probe.decoders.contract import IGNORED
from probekit.probe.decoders.dropout import dropout_mask
from probekit.probe.decoders.linear import LinearDecoder
from probekit.probe.heads import FusionHead
from probekit.train.inputs import Inputs
from probekit.train.member import Member
from probekit.train.optimizer import Optimizer
from probekit.train.stopwatch import Stopwatch


def is_linear_probe(member: Member) -> bool:
    """Tell whether a member trains a linear layer, and nothing else, and is not heavy."""
    head, decoder = member.probe.head, member.probe.decoder
    trains_head = any(parameter.requires_grad for parameter in head.parameters())
    return isinstance(decoder, LinearDecoder) and not trains_head and not member.probe.heavy


@dataclass(frozen=True, eq=False)
class _Probe:
    """A member, and what it is made of."""

    member: Member
    head: FusionHead
    decoder: LinearDecoder

    @classmethod
    def of(cls, member: Member) -> Self:
        """Return the parts of a linear probe."""
        decoder = member.probe.decoder
        assert isinstance(decoder, LinearDecoder), "a linear probe"
        return cls(member, member.probe.head, decoder)


class LinearProbes:
    """Linear probes of one width and with the same options, stepping together.

    A step of one of them is a few microseconds of arithmetic and many times that of calls. Here no
    graph is built: the gradient of the mean cross entropy by the logits, (softmax - one-hot) / n,
    is computed for all probes at once, and one optimizer updates them all. Members of a stream
    share its seed, so their dropout masks are the same, and drawn once.

    Products run probe by probe: in a batch of products the terms of a sum may be added in another
    order than alone, and a probe's numbers must not depend on the probes beside it.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        """Start what the probes have in common; one stopwatch is that of all from now on."""
        self._probes = [_Probe.of(member) for member in members]
        self._optimizer = Optimizer([member.probe for member in members], members[0].spec)
        self._dropout = members[0].dropout
        self._stopwatch = Stopwatch(self._dropout.device, among=len(members))
        for member in members:
            member.stepping = self._stopwatch

    @torch.no_grad()
    def step(
        self,
        inputs: Inputs,
        targets: Int64[Tensor, " rows"],
        offsets: Int64[Tensor, " bounds"],
        *,
        remaining: float,
    ) -> None:
        """Take one step with every probe that has not diverged.

        Args:
            inputs: what the probes read of the batch.
            targets: of its rows.
            offsets: bounds of its sentences in them, which a linear probe does not need.
            remaining: the share of the run that is left, in (0, 1].
        """
        probes = [probe for probe in self._probes if not probe.member.diverged]
        if not probes:
            return
        z = [inputs.of(p.member.normalization, p.member.spec.layers) for p in probes]
        with self._stopwatch.running():
            hidden = self._dropped([p.head(rows) for p, rows in zip(probes, z, strict=True)])
            logits = [
                functional.linear(h, p.decoder.weight, p.decoder.bias)
                for p, h in zip(probes, hidden, strict=True)
            ]
            losses, gradients = losses_and_gradients(torch.stack(logits), targets)
            for p, h, gradient in zip(probes, hidden, gradients, strict=True):
                p.decoder.weight.grad = gradient.t() @ h
                p.decoder.bias.grad = gradient.sum(0)
            self._optimizer.step(remaining=remaining)
            for p, loss in zip(probes, losses, strict=True):
                p.member.count(loss)

    def _dropped(
        self, hidden: Sequence[Float[Tensor, "rows width"]]
    ) -> Sequence[Float[Tensor, "rows width"]]:
        """Return what every probe sees after the dropout that all of them share."""
        rate = self._probes[0].decoder.dropout
        if rate == 0:
            return hidden
        keep = dropout_mask(hidden[0], rate, self._dropout)
        return [h * keep for h in hidden]


def losses_and_gradients(
    logits: Float[Tensor, "probes rows classes"], targets: Int64[Tensor, " rows"]
) -> tuple[Sequence[Float[Tensor, ""]], Sequence[Float[Tensor, "rows classes"]]]:
    """Return each probe's mean cross entropy over the rows with a target, and its gradient.

    The gradient is by the logits: (softmax - one-hot) / number of rows, and 0 for a row whose
    target is -100. What is returned of a probe is the same whichever others there are: softmax goes
    row by row, and the rest is exact whatever lies beside it.
    """
    known = (targets != IGNORED).unsqueeze(1)
    count = known.sum().clamp(min=1)
    share = known.to(logits.dtype) / count
    expected = torch.zeros_like(logits[0]).scatter_(1, targets.clamp(min=0).unsqueeze(1), share)
    log_p = logits.log_softmax(-1)
    losses = [
        functional.nll_loss(one, targets, ignore_index=IGNORED, reduction="sum") for one in log_p
    ]
    gradients = logits.softmax(-1).mul_(share).sub_(expected)
    means = torch.stack(losses).div_(count).unbind()
    return means, [one.clone() for one in gradients]  # in aligned memory, whatever lies before it
