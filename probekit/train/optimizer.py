"""The optimizer of probes, with learning rates that follow a schedule."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from probekit.heads import FusionHead
from probekit.train.member import MemberSpec
from probekit.train.probe import Probe


class Optimizer:
    """AdamW or Adam over what probes train; it may have nothing to do.

    Attributes:
        idle: whether there is nothing to train (the frozen output head on one layer).
    """

    def __init__(self, probes: Sequence[Probe], spec: MemberSpec) -> None:
        """Divide the trained values into two groups: mixing weights, where they have a rate.

        Args:
            probes: on their device, their frozen values marked.
            spec: what all of them have in common: optimizer, schedule, rates, weight decay.
        """
        self._linear = spec.schedule == "linear"
        trained = [value for probe in probes for value in probe.parameters() if value.requires_grad]
        self.idle = not trained
        self._torch: torch.optim.Optimizer | None = None
        if self.idle:
            return
        mixing = [] if spec.mix_lr is None else [one for p in probes for one in _mixing(p.head)]
        groups = _groups(trained, mixing, spec.lr, spec.mix_lr)
        fused = trained[0].device.type in ("cpu", "cuda")
        if spec.optimizer == "adam":
            self._torch = torch.optim.Adam(groups, fused=fused)
        else:
            self._torch = torch.optim.AdamW(groups, weight_decay=spec.weight_decay, fused=fused)
        self._peaks = [group["lr"] for group in groups]

    def step(self, *, remaining: float) -> None:
        """Take one step down the gradients, and forget them; values without one stay.

        Args:
            remaining: the share of the run that is left, in (0, 1].
        """
        if self._torch is None:
            return
        for group, peak in zip(self._torch.param_groups, self._peaks, strict=True):
            group["lr"] = peak * (remaining if self._linear else 1.0)
        self._torch.step()
        self._torch.zero_grad()


def _mixing(head: FusionHead) -> list[nn.Parameter]:
    return [parameter for parameter in head.mixing_parameters() if parameter.requires_grad]


def _groups(
    trained: list[nn.Parameter], mixing: list[nn.Parameter], lr: float, mix_lr: float | None
) -> list[dict[str, Any]]:
    apart = {id(parameter) for parameter in mixing}
    others = [parameter for parameter in trained if id(parameter) not in apart]
    groups: list[dict[str, Any]] = [
        {"params": others, "lr": lr},
        {"params": mixing, "lr": mix_lr},
    ]
    return [group for group in groups if group["params"]]
