"""The optimizer of probes, with learning rates that follow a schedule."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

from probekit.probe.fitters import Fitter
from probekit.train.option_groups import Descent
from probekit.train.probe import Probe

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
        self._own = None
        if fitter is not None and not self.idle:
            given = [
                {"params": [state[0] for state in own], "lr": rate}
                for rate, own in self._by_rate.items()
            ]
            self._own = fitter.optimizer(given, self._decay)

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs to go on as if nothing had been between."""
        own = None if self._own is None else self._own.state_dict()
        return {"moments": [moments for _, *moments in self._values()], "own": own}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of an optimizer over the same probes."""
        for (_, *moments), kept in zip(self._values(), state["moments"], strict=True):
            for value, was in zip(moments, kept, strict=True):
                value.copy_(was)
        if self._own is not None:
            self._own.load_state_dict(state["own"])

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
        if self._own is not None:
            for rate, own in zip(self._by_rate, self._own.param_groups, strict=True):
                own["lr"] = rate * share
            self._own.step()
            self._own.zero_grad()
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
