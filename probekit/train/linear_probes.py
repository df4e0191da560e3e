"""Linear probes, all of a stream in one step."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from probekit.decoders.contract import IGNORED
from probekit.decoders.dropout import dropout_mask
from probekit.decoders.linear import LinearDecoder
from probekit.train.inputs import Inputs
from probekit.train.member import Member
from probekit.train.optimizer import Optimizer
from probekit.train.stopwatch import Stopwatch


def is_linear_probe(member: Member) -> bool:
    """Tell whether a member trains a linear layer in float32 and nothing else."""
    head, decoder = member.probe.head, member.probe.decoder
    trains_head = any(parameter.requires_grad for parameter in head.parameters())
    return isinstance(decoder, LinearDecoder) and not trains_head and not member.probe.heavy


def _decoder(member: Member) -> LinearDecoder:
    assert isinstance(member.probe.decoder, LinearDecoder)
    return member.probe.decoder


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
        """Start what the probes have in common."""
        self._members = tuple(members)
        self._optimizer = Optimizer([member.probe for member in members], members[0].spec)
        self._dropout = members[0].dropout
        self._stopwatch = Stopwatch(self._dropout.device, among=len(members))
        for member in members:
            member.stopwatch = self._stopwatch

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
        members = [member for member in self._members if not member.diverged]
        if not members:
            return
        rows = [inputs.of(member.treatment, member.spec.layers) for member in members]
        with self._stopwatch.running():
            hidden = self._dropped(
                [member.probe.head(z) for member, z in zip(members, rows, strict=True)]
            )
            decoders = [_decoder(member) for member in members]
            logits = [
                functional.linear(h, decoder.weight, decoder.bias)
                for h, decoder in zip(hidden, decoders, strict=True)
            ]
            losses, gradients = cross_entropies(torch.stack(logits), targets)
            for h, decoder, gradient in zip(hidden, decoders, gradients, strict=True):
                decoder.weight.grad = gradient.t() @ h
                decoder.bias.grad = gradient.sum(0)
            self._optimizer.step(remaining=remaining)
            for member, loss in zip(members, losses, strict=True):
                member.count(loss)

    def _dropped(
        self, hidden: Sequence[Float[Tensor, "rows width"]]
    ) -> Sequence[Float[Tensor, "rows width"]]:
        """Return what every probe sees after the dropout that all of them share."""
        rate = _decoder(self._members[0]).dropout
        if rate == 0:
            return hidden
        keep = dropout_mask(hidden[0], rate, self._dropout)
        return [h * keep for h in hidden]


def cross_entropies(
    logits: Float[Tensor, "probes rows classes"], targets: Int64[Tensor, " rows"]
) -> tuple[Sequence[Float[Tensor, ""]], Sequence[Float[Tensor, "rows classes"]]]:
    """Return each probe's mean cross entropy over the rows with a target, and its gradient.

    The gradient is by the logits: (softmax - one-hot) / number of rows, and 0 for a row whose
    target is -100. What is returned of a probe is the same whichever others there are.
    """
    known = (targets != IGNORED).unsqueeze(1)
    share = known.to(logits.dtype) / known.sum().clamp(min=1)
    expected = torch.zeros_like(logits[0]).scatter_(1, targets.clamp(min=0).unsqueeze(1), share)
    log_p = logits.log_softmax(-1)
    losses = [
        functional.nll_loss(one, targets, ignore_index=IGNORED, reduction="sum") for one in log_p
    ]
    gradients = log_p.exp_().mul_(share).sub_(expected)
    means = torch.stack(losses).div_(known.sum().clamp(min=1)).unbind()
    return means, [one.clone() for one in gradients]  # in aligned memory, whatever lies before it
