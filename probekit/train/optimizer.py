"""The optimizer of probes, with learning rates that follow a schedule."""

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter

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
