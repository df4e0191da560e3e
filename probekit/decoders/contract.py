"""What every decoder promises: logits from fused rows, a loss over them, and predictions."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

IGNORED = -100
"""Target of a row that takes no part in the loss."""


class Decoder(nn.Module, ABC):
    """Turns fused rows h into logits, a training loss and class ids.

    ``offsets`` (examples + 1) says that example e owns rows ``offsets[e]:offsets[e + 1]``. Decoders
    that score each row alone ignore it; those that score whole sentences need it.

    Attributes:
        width: width of h.
        n_classes: number of logits per row.
    """

    def __init__(self, width: int, n_classes: int) -> None:
        """Remember the sizes."""
        super().__init__()
        self.width = width
        self.n_classes = n_classes

    @property
    def affine(self) -> tuple[Tensor, Tensor] | None:
        """Weight and bias of the map from h to logits in evaluation mode, if it is affine."""
        return None

    @abstractmethod
    def forward(
        self, h: Float[Tensor, "rows width"], generator: torch.Generator | None = None
    ) -> Float[Tensor, "rows classes"]:
        """Return logits in float32 (float64 for float64 input).

        Args:
            h: fused rows.
            generator: source of dropout masks, on h's device; needed in training mode by decoders
                with dropout, never used in evaluation mode. The global generator is left alone,
                so members trained side by side do not disturb each other.
        """

    @abstractmethod
    def loss(
        self,
        logits: Float[Tensor, "rows classes"],
        targets: Int64[Tensor, " rows"],
        offsets: Int64[Tensor, " bounds"] | None = None,
    ) -> Float[Tensor, ""]:
        """Return the mean loss over the rows whose target is not -100; 0 when there is none."""

    @abstractmethod
    def predict(
        self,
        logits: Float[Tensor, "rows classes"],
        offsets: Int64[Tensor, " bounds"] | None = None,
    ) -> Int64[Tensor, " rows"]:
        """Return one class id per row."""


@dataclass(frozen=True, kw_only=True)
class DecoderSpec(ABC):
    """A decoder's name and hyper-parameters: a value that builds the module.

    Attributes:
        name: key in ``DECODERS``.
        source: paper.
        summary: one line for people.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    summary: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the name and hyper-parameters; ``decoder_from_json`` is the inverse."""
        return {"name": self.name, **asdict(self)}

    @abstractmethod
    def build(self, width: int, n_classes: int, generator: torch.Generator) -> Decoder:
        """Create the module with fresh parameters.

        Args:
            width: width of h, ``FusionHead.width``.
            n_classes: number of classes.
            generator: the only source of randomness, on the CPU.
        """
