"""How the members of a stream take a step: linear probes all at once, every other by itself."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional
from torch.optim.adam import adam

from probekit.base.tensors import Stopwatch
from probekit.probe.decoders.contract import IGNORED, dropout_mask
from probekit.probe.decoders.linear import LinearDecoder
from probekit.probe.fitters import FITTERS, Fitter
from probekit.train.member import Member, Probe, count_parameters
from probekit.train.option_groups import Descent
from probekit.train.source import Inputs

_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8


class Optimizer:
    """AdamW or Adam over what probes train, with torch's defaults, unless a fitter has its own.

    It may have nothing to do.

    The classes of ``torch.optim`` import torch's compiler, which takes a second and tens of MB in
    every process; the function that they call does not.

    Attributes:
        idle: whether there is nothing to train (the frozen output head on one layer).
    """

    def __init__(
        self, probes: Sequence[Probe], descent: Descent, fitter: Fitter | None = None
    ) -> None:
        """Gather the trained values by their rate.

        Args:
            probes: on their device, their frozen values marked.
            descent: what all of them have in common.
            fitter: which may bring an optimizer of its own; None does not.
        """
        self._descent, self._decay = descent, descent.decay
        self._by_rate: dict[float, list[tuple[Tensor, ...]]] = {}  # values of one rate go together
        parts = [part for probe in probes for part in (probe.head, probe.decoder, probe.tuned)]
        groups = chain.from_iterable(
            part.parameter_groups().items() for part in parts if part is not None
        )
        for name, values in groups:
            for value in filter(attrgetter("requires_grad"), values):
                moments = torch.zeros_like(value), torch.zeros_like(value)
                steps = torch.zeros((), dtype=torch.float32, device=value.device)
                self._by_rate.setdefault(descent.peak(name), []).append((value, *moments, steps))
        self.idle = not self._by_rate
        self._optimizer = None
        if fitter is not None and not self.idle:
            param_groups = [
                {"params": [state[0] for state in states], "lr": rate}
                for rate, states in self._by_rate.items()
            ]
            self._optimizer = fitter.optimizer(param_groups, self._decay)

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs to go on as if nothing had been between."""
        own_state = None if self._optimizer is None else self._optimizer.state_dict()
        return {"moments": [moments for _, *moments in self._values()], "own": own_state}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of an optimizer over the same probes."""
        for (_, *moments), saved in zip(self._values(), state["moments"], strict=True):
            for moment, saved_moment in zip(moments, saved, strict=True):
                moment.copy_(saved_moment)
        if self._optimizer is not None:
            self._optimizer.load_state_dict(state["own"])

    def _values(self) -> Iterator[tuple[Tensor, ...]]:
        """Yield each trained value with its moments and its number of steps."""
        return chain.from_iterable(self._by_rate.values())

    @torch.no_grad()
    def step(self, *, remaining: float) -> None:
        """Take one step down the gradients, and forget them; values without one stay.

        Args:
            remaining: the share of the run that is left, in (0, 1].
        """
        share = self._descent.share(remaining)
        if self._optimizer is not None:
            for rate, param_group in zip(self._by_rate, self._optimizer.param_groups, strict=True):
                param_group["lr"] = rate * share
            self._optimizer.step()
            self._optimizer.zero_grad()
            return
        for rate, group in self._by_rate.items():
            states = [state for state in group if state[0].grad is not None]
            if not states:
                continue
            values, first, second, steps = map(list, zip(*states, strict=True))
            adam(
                values,
                [value.grad for value in values],
                first,
                second,
                [],
                steps,
                fused=True,
                amsgrad=False,
                beta1=_BETA1,
                beta2=_BETA2,
                lr=rate * share,
                weight_decay=self._decay or 0.0,
                eps=_EPS,
                maximize=False,
                decoupled_weight_decay=self._decay is not None,
            )
            for value in values:
                value.grad = None


class OwnSteps:
    """One member, stepping by itself.

    Attributes:
        optimizer: updates it.
    """

    def __init__(self, member: Member) -> None:
        """Start its optimizer."""
        self._member = member
        fitter = FITTERS[member.spec.fitter]
        self.optimizer = Optimizer([member.probe], member.spec.descent, fitter)

    def step(self, inputs: Inputs, *, remaining: float) -> None:
        """Take one step, unless the member has diverged.

        A probe without trainable values (the frozen output head on one layer) only notes its loss.

        Args:
            inputs: what is read of the batch.
            remaining: the share of the run that is left, in (0, 1].
        """
        member, trains = self._member, not self.optimizer.idle
        if member.diverged:
            return
        z = inputs.of(member.normalization, member.spec.layers)
        with member.stepping.running():
            with torch.set_grad_enabled(trains):
                logits = member.probe.logits(z, member.dropout)
                loss = member.probe.decoder.loss(logits, inputs.targets, inputs.offsets)
            if trains:
                torch.autograd.backward(loss)
                if member.probe.tuned is not None:
                    member.probe.tuned.before_step(remaining)
            self.optimizer.step(remaining=remaining)
            member.count(loss.detach())


class LinearProbes:
    """Linear probes of one width and with the same options, stepping together.

    A step of one of them is a few microseconds of arithmetic and many times that of calls. Here no
    graph is built: the gradient of the mean cross entropy by the logits, (softmax - one-hot) / n,
    is computed for all probes at once, and one optimizer updates them all. Members of a stream
    share its seed, so their dropout masks are the same, and drawn once.

    Products run probe by probe: in a batch of products the terms of a sum may be added in another
    order than alone, and a probe's numbers must not depend on the probes beside it.

    Attributes:
        optimizer: updates them.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        """Start what the probes have in common; one stopwatch is that of all from now on."""
        self._probes = [(member, cast(LinearDecoder, member.probe.decoder)) for member in members]
        first, probes = members[0].spec, [member.probe for member in members]
        self.optimizer = Optimizer(probes, first.descent, FITTERS[first.fitter])
        self._dropout = members[0].dropout
        self._stopwatch = Stopwatch(self._dropout.device, among=len(members))
        for member in members:
            member.stepping = self._stopwatch

    @torch.no_grad()
    def step(self, inputs: Inputs, *, remaining: float) -> None:
        """Take one step with every probe that has not diverged.

        Args:
            inputs: what the probes read of the batch.
            remaining: the share of the run that is left, in (0, 1].
        """
        probes = [(member, layer) for member, layer in self._probes if not member.diverged]
        if not probes:
            return
        z = [inputs.of(member.normalization, member.spec.layers) for member, _ in probes]
        with self._stopwatch.running():
            hidden = [member.probe.head(rows) for (member, _), rows in zip(probes, z, strict=True)]
            if rate := probes[0][1].dropout:  # all of them share its mask
                keep = dropout_mask(hidden[0], rate, self._dropout)
                hidden = [h * keep for h in hidden]
            logits = [
                functional.linear(h, layer.weight, layer.bias)
                for (_, layer), h in zip(probes, hidden, strict=True)
            ]
            losses, gradients = losses_and_gradients(torch.stack(logits), inputs.targets)
            for (_, layer), h, gradient in zip(probes, hidden, gradients, strict=True):
                layer.weight.grad = gradient.t() @ h
                layer.bias.grad = gradient.sum(0)
            self.optimizer.step(remaining=remaining)
            for (member, _), loss in zip(probes, losses, strict=True):
                member.count(loss)


def losses_and_gradients(
    logits: Float[Tensor, "probes rows classes"], targets: Int64[Tensor, " rows"]
) -> tuple[Sequence[Float[Tensor, ""]], Sequence[Float[Tensor, "rows classes"]]]:
    """Return each probe's mean cross entropy over the rows with a target, and its gradient.

    The gradient is by the logits: (softmax - one-hot) / number of rows, and 0 for a row whose
    target is -100. What is returned of a probe is the same whichever others there are: softmax goes
    row by row, and the rest is exact whatever lies beside it.
    """
    # Rows with targets 1, -100 and 0 of two classes: `share` is 1/2 0 1/2, `expected` has it at the
    # target, (0 1/2) (0 0) (1/2 0), and softmax times the share less that is the gradient.
    has_target = (targets != IGNORED).unsqueeze(1)
    count = has_target.sum().clamp(min=1)
    share = has_target.to(logits.dtype) / count
    expected = torch.zeros_like(logits[0]).scatter_(1, targets.clamp(min=0).unsqueeze(1), share)
    log_p = logits.log_softmax(-1)
    losses = [
        functional.nll_loss(probe_log_p, targets, ignore_index=IGNORED, reduction="sum")
        for probe_log_p in log_p
    ]
    gradients = logits.softmax(-1).mul_(share).sub_(expected)
    means = torch.stack(losses).div_(count).unbind()
    # in aligned memory, whatever lies before it
    return means, [gradient.clone() for gradient in gradients]


Stepper = OwnSteps | LinearProbes
"""One member, or several, with the optimizer that updates them."""


def steps_of(members: Sequence[Member]) -> list[Stepper]:
    """Divide members of a stream, which read the same kind of thing, into those that step together.

    Their optimizers start here, and linear probes get their stopwatch. How a member steps depends
    on itself alone.
    """
    together: dict[Hashable, list[Member]] = {}
    alone: list[Stepper] = []
    for member in members:
        if is_linear_probe(member):
            spec = member.spec
            shared = member.probe.head.width, spec.decoder, spec.descent, spec.fitter
            together.setdefault(shared, []).append(member)
        else:
            alone.append(OwnSteps(member))
    return [*alone, *map(LinearProbes, together.values())]


def is_linear_probe(member: Member) -> bool:
    """Tell whether a member trains a linear layer, and nothing else, and is not heavy."""
    head, decoder = member.probe.head, member.probe.decoder
    trains_head = any(parameter.requires_grad for parameter in head.parameters())
    tuned = member.probe.tuned
    alone = not trains_head and (tuned is None or not count_parameters(tuned))
    return isinstance(decoder, LinearDecoder) and alone and not member.probe.heavy
