"""Full fine-tuning: every value of the model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from probekit.tuning.contract import Method
from probekit.tuning.packaging import Packaging, WholeModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class Full(Method):
    """All values of the blocks that are read, of the embeddings, and of the norm at the end."""

    name: ClassVar[str] = "full"
    learning_rate: ClassVar[float] = 2e-5
    source: ClassVar[str] = "Devlin et al. 2019, appendix A.3"
    summary: ClassVar[str] = "every value of the model"

    @property
    def packaging(self) -> Packaging:
        """A model by itself."""
        return WholeModel()

    def attach(
        self, model: "PreTrainedModel", generator: torch.Generator
    ) -> Mapping[str, nn.Parameter]:
        """Let all values learn."""
        model.requires_grad_(True)
        return dict(model.named_parameters())
