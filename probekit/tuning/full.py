"""The weights of the model itself: all of them, its biases (Ben Zaken et al. 2022), or none."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from probekit.errors import OptionError
from probekit.tuning.contract import Method, Values
from probekit.tuning.packaging import Packaging, WholeModel

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

    def attach(self, model: "PreTrainedModel", generator: torch.Generator) -> Values:
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


@dataclass(frozen=True, kw_only=True)
class Frozen(Method):
    """What a run from the cache computes, without the cache: the check of all other methods."""

    name: ClassVar[str] = "frozen"
    trains: ClassVar[bool] = False
    source: ClassVar[str] = "-"
    summary: ClassVar[str] = "nothing of the model: the same as training from the cache, but slower"

    def attach(self, model: "PreTrainedModel", generator: torch.Generator) -> Values:
        """Leave it alone."""
        return {}


@dataclass(frozen=True, kw_only=True)
class Full(Method):
    """All values of the blocks that are read, of the embeddings, and of the norm at the end."""

    name: ClassVar[str] = "full"
    learning_rate: ClassVar[float] = 2e-5
    source: ClassVar[str] = "Devlin et al. 2019, appendix A.3"
    summary: ClassVar[str] = "every weight of the model"

    @property
    def packaging(self) -> Packaging:
        """A model by itself."""
        return WholeModel()

    def attach(self, model: "PreTrainedModel", generator: torch.Generator) -> Values:
        """Let all values learn."""
        model.requires_grad_(True)
        return dict(model.named_parameters())
