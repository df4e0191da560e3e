"""The optimizer of a probe, with learning rates that follow a schedule."""

from typing import Any

import torch
from torch import nn

from probekit.heads import FusionHead
from probekit.train.probe import Probe


class Optimizer:
    """AdamW or Adam over what a probe trains; it may have nothing to do.

    Attributes:
        idle: whether there is nothing to train (the frozen output head on one layer).
    """

    def __init__(
        self,
        probe: Probe,
        *,
        name: str,
        schedule: str,
        lr: float,
        mix_lr: float | None,
        weight_decay: float,
    ) -> None:
        """Divide the trained values into two groups: mixing weights, where they have a rate.

        Args:
            probe: on its device, its frozen values marked.
            name: ``adamw`` or ``adam``.
            schedule: ``linear`` decay to 0, or ``constant``.
            lr: peak learning rate.
            mix_lr: peak learning rate of the head's mixing parameters; ``None`` is ``lr``.
            weight_decay: AdamW's decoupled weight decay.
        """
        self._linear = schedule == "linear"
        trained = [parameter for parameter in probe.parameters() if parameter.requires_grad]
        self.idle = not trained
        self._torch: torch.optim.Optimizer | None = None
        if self.idle:
            return
        groups = _groups(trained, _mixing(probe.head) if mix_lr is not None else [], lr, mix_lr)
        fused = trained[0].device.type in ("cpu", "cuda")
        if name == "adam":
            self._torch = torch.optim.Adam(groups, fused=fused)
        else:
            self._torch = torch.optim.AdamW(groups, weight_decay=weight_decay, fused=fused)
        self._peaks = [group["lr"] for group in groups]

    def step(self, loss: torch.Tensor, *, remaining: float) -> None:
        """Take one step down the gradient of a loss.

        Args:
            loss: with a graph, unless the optimizer is idle.
            remaining: the share of the run that is left, in (0, 1].
        """
        if self._torch is None:
            return
        self._torch.zero_grad()
        torch.autograd.backward(loss)
        for group, peak in zip(self._torch.param_groups, self._peaks, strict=True):
            group["lr"] = peak * (remaining if self._linear else 1.0)
        self._torch.step()


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
