"""BitFit: the biases of the model alone (Ben Zaken et al. 2022)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from probekit.errors import OptionError
from probekit.tuning.contract import Method

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class BitFit(Method):
    """Every bias of the linear layers and of the norms, that of the embeddings included.

    Of a BERT with L blocks of width D and feed-forward layers of width F: L (7 D + F) + D values.
    """

    name: ClassVar[str] = "bitfit"
    learning_rate: ClassVar[float] = 1e-3
    stays_apart: ClassVar[str | None] = None
    source: ClassVar[str] = "Ben Zaken et al. 2022, section 3"
    summary: ClassVar[str] = "the biases of linear layers and norms"

    def attach(
        self, model: "PreTrainedModel", generator: torch.Generator
    ) -> Mapping[str, nn.Parameter]:
        """Let the biases learn.

        Raises:
            OptionError: the model has none.
        """
        biases = {
            name: value
            for name, value in model.named_parameters()
            if name.rpartition(".")[2].endswith("bias")  # DeBERTa has a q_bias
        }
        if not biases:
            raise OptionError(
                f"--method bitfit trains biases, and {type(model).__name__} has none. Choose "
                "another method, such as lora."
            )
        for value in biases.values():
            value.requires_grad_(True)
        return biases
