"""A model's own norm and output head, which read layers through a lens."""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.measures.lens_maps import Lens
from probekit.probe.model_parts import FinalNorm, OutputHead

_OFF = 1e-3
"""Weight of the norm, over the median, below which a channel is left out of what is fitted."""

Part = TypeVar("Part", FinalNorm, OutputHead)


@dataclass(frozen=True, eq=False)
class LogitReader:
    """What makes logits of layers: the model's own norm and output head.

    Attributes:
        norm: what a layer before the last goes through; None if the model has none.
        head: makes logits.
        last: L.
    """

    norm: FinalNorm | None
    head: OutputHead
    last: int

    def to(self, device: torch.device) -> "LogitReader":
        """Return the same on a device."""
        norm = None if self.norm is None else _moved(self.norm, device)
        return replace(self, norm=norm, head=_moved(self.head, device))

    def logits(
        self, lens: Lens, layer: int, h: Float[Tensor, "rows dim"]
    ) -> Float[Tensor, "rows vocabulary"]:
        """Return the logits of rows of a layer; those of layer L are the model's own."""
        if layer == self.last:
            return self.head(h)
        h = lens(layer, h)
        return self.head(h if self.norm is None else self.norm(h))

    def direction(self, h: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
        """Return rows of layer L before the scale and shift of the norm that they went through."""
        if self.norm is None:
            return h
        bias = 0.0 if self.norm.bias is None else self.norm.bias
        weight = self.norm.weight
        # a channel that the norm all but switches off would be noise, and matters to no logit
        matters = weight.abs() > _OFF * weight.abs().median()
        return torch.where(matters, (h - bias) / weight, 0.0)


def _moved(part: Part, device: torch.device) -> Part:
    """Return a part of a model with its tensors on a device."""
    values = vars(part).items()
    moved: dict[str, Any] = {n: v.to(device) for n, v in values if isinstance(v, Tensor)}
    return replace(part, **moved)
