"""The model as it is: it runs in every step, and only the head learns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from probekit.tuning.contract import Method

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class Frozen(Method):
    """What a run from the cache computes, without the cache: the check of all other methods."""

    name: ClassVar[str] = "frozen"
    trains: ClassVar[bool] = False
    source: ClassVar[str] = "-"
    summary: ClassVar[str] = "nothing of the model: what training from the cache does, slowly"

    def attach(
        self, model: "PreTrainedModel", generator: torch.Generator
    ) -> Mapping[str, nn.Parameter]:
        """Leave it alone."""
        return {}
