"""Linear decoder: dropout, then one linear layer; the default for tagging."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from probekit.decoders.classifier import Classifier
from probekit.decoders.contract import DecoderSpec
from probekit.decoders.dropout import dropout
from probekit.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class Linear(DecoderSpec):
    """logits = W dropout(h) + b, trained with cross entropy.

    Attributes:
        dropout: probability of zeroing an element of h in training.
    """

    dropout: float = 0.1

    name: ClassVar[str] = "linear"
    source: ClassVar[str] = "the token classifier of BERT, used by DWAtt"
    summary: ClassVar[str] = "dropout and one linear layer"
    kinds: ClassVar[frozenset[str]] = frozenset({"tagging", "sentence", "pair"})

    def __post_init__(self) -> None:
        """Check the rate."""
        if not 0 <= self.dropout < 1:
            raise OptionError(f"linear: dropout must be in [0, 1), found {self.dropout}.")

    def build(self, width: int, n_classes: int, generator: torch.Generator) -> "LinearDecoder":
        """Create the module; weight, then bias, are drawn as ``torch.nn.Linear`` would."""
        return LinearDecoder(width, n_classes, self.dropout, generator)


class LinearDecoder(Classifier):
    """Module of `Linear`."""

    def __init__(
        self, width: int, n_classes: int, dropout: float, generator: torch.Generator
    ) -> None:
        """Draw weight and bias from U(-1/sqrt(width), 1/sqrt(width))."""
        super().__init__(width, n_classes)
        self.dropout = dropout
        bound = 1 / math.sqrt(width)
        weight = torch.empty(n_classes, width).uniform_(-bound, bound, generator=generator)
        self.weight = nn.Parameter(weight)
        bias = torch.empty(n_classes).uniform_(-bound, bound, generator=generator)
        self.bias = nn.Parameter(bias)

    @property
    def affine(self) -> tuple[Tensor, Tensor]:
        """Weight (classes, width) and bias (classes)."""
        return self.weight, self.bias

    def forward(
        self, h: Float[Tensor, "rows width"], generator: torch.Generator | None = None
    ) -> Float[Tensor, "rows classes"]:
        """Return logits; the product runs in the autocast dtype."""
        if self.training:
            h = dropout(h, self.dropout, generator)
        logits = functional.linear(h, self.weight, self.bias)
        return logits.float() if logits.element_size() < 4 else logits
