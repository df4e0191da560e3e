"""The optimizer of probes, with learning rates that follow a schedule."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.optim.adam import adam

from probekit.probe.parameter_groups import join
from probekit.train.option_groups import Descent
from probekit.train.probe import Probe

_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8


class Optimizer:
    """AdamW or Adam over what probes train, with torch's defaults; it may have nothing to do.

    The classes of ``torch.optim`` import torch's compiler, which takes a second and tens of MB in
    every process; the function that they call does not.

    Attributes:
        idle: whether there is nothing to train (the frozen output head on one layer).
    """

    def __init__(self, probes: Sequence[Probe], descent: Descent) -> None:
        """Gather the trained values by their rate.

        Args:
            probes: on their device, their frozen values marked.
            descent: what all of them have in common.
        """
        self._descent = descent
        by_rate: dict[float, list[nn.Parameter]] = {}  # groups of one rate step together
        for name, values in join([probe.parameter_groups() for probe in probes]).items():
            if trained := [value for value in values if value.requires_grad]:
                by_rate.setdefault(descent.peak(name), []).extend(trained)
        self.idle = not by_rate
        self._groups = [_Group(values, rate, descent.decay) for rate, values in by_rate.items()]

    def step(self, *, remaining: float) -> None:
        """Take one step down the gradients, and forget them; values without one stay.

        Args:
            remaining: the share of the run that is left, in (0, 1].
        """
        for group in self._groups:
            group.step(self._descent.share(remaining))


class _Group:
    """Values with one learning rate, and of each its two moments and number of steps."""

    def __init__(self, values: list[nn.Parameter], lr: float, decay: float | None) -> None:
        """Start the moments at 0; ``decay`` is AdamW's, None is Adam."""
        self._lr, self._decay = lr, decay
        self._states = [
            (
                value,
                torch.zeros_like(value),
                torch.zeros_like(value),
                torch.zeros((), dtype=torch.float32, device=value.device),
            )
            for value in values
        ]

    @torch.no_grad()
    def step(self, share: float) -> None:
        """Update the values that have a gradient, at a share of the learning rate."""
        states = [state for state in self._states if state[0].grad is not None]
        if not states:
            return
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
            lr=self._lr * share,
            weight_decay=self._decay or 0.0,
            eps=_EPS,
            maximize=False,
            decoupled_weight_decay=self._decay is not None,
        )
        for value in values:
            value.grad = None
