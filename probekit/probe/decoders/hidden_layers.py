"""Decoders with hidden layers: the MLP of the attention-fusion paper, and BERT's pooler."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn import functional

from probekit.base.numbers import linear_layer
from probekit.base.tensors import full
from probekit.errors import OptionError
from probekit.probe.decoders.contract import (
    Classifier,
    DecoderSpec,
    Fused,
    Logits,
    check_rate,
    dropout,
)


@dataclass(frozen=True, kw_only=True)
class MLP(DecoderSpec):
    """logits = W_3 relu(W_2 relu(W_1 h + b_1) + b_2) + b_3, trained with cross entropy.

    The paper gives the number and width of the hidden layers; it names neither activation nor
    dropout, which are ours: ReLU, and dropout on the input of every layer as in `Linear`.

    Attributes:
        hidden: width of both hidden layers.
        dropout: probability of zeroing an element of a layer's input in training.
    """

    hidden: int = 256
    dropout: float = 0.1

    name: ClassVar[str] = "mlp"
    source: ClassVar[str] = 'attention fusion, section 4: "two feed forward layers of size 256"'
    summary: ClassVar[str] = "two hidden layers of 256"
    kinds: ClassVar[frozenset[str]] = frozenset({"tagging", "span", "sentence", "pair"})

    def __post_init__(self) -> None:
        """Check width and rate."""
        if self.hidden < 1:
            raise OptionError(f"mlp: hidden must be 1 or more, found {self.hidden}.")
        check_rate(self.name, self.dropout)

    def build(self, width: int, n_classes: int, generator: torch.Generator) -> "MLPDecoder":
        """Create the module; the layers are drawn one after another."""
        return MLPDecoder(width, n_classes, self.hidden, self.dropout, generator)


class MLPDecoder(Classifier):
    """Module of `MLP`."""

    def __init__(
        self, width: int, n_classes: int, hidden: int, dropout: float, generator: torch.Generator
    ) -> None:
        """Draw the three layers as ``torch.nn.Linear`` would."""
        super().__init__(width, n_classes)
        self.dropout = dropout
        self.first = linear_layer(width, hidden, generator)
        self.second = linear_layer(hidden, hidden, generator)
        self.out = linear_layer(hidden, n_classes, generator)

    def forward(self, h: Fused, generator: torch.Generator | None = None) -> Logits:
        """Return logits; the products run in the autocast dtype."""
        for layer in (self.first, self.second):
            h = functional.relu(layer(dropout(h, self.dropout, generator, training=self.training)))
        return full(self.out(dropout(h, self.dropout, generator, training=self.training)))


@dataclass(frozen=True, kw_only=True)
class Pooler(DecoderSpec):
    """logits = W dropout(tanh(W_p h + b_p)) + b, W_p square, trained with cross entropy.

    Attributes:
        dropout: probability of zeroing an element of the pooled vector in training.
    """

    dropout: float = 0.1

    name: ClassVar[str] = "pooler"
    source: ClassVar[str] = "the sequence classifier of BERT, its pooler drawn anew"
    summary: ClassVar[str] = "dense layer, tanh, one linear layer"
    kinds: ClassVar[frozenset[str]] = frozenset({"sentence", "pair"})

    def __post_init__(self) -> None:
        """Check the rate."""
        check_rate(self.name, self.dropout)

    def build(self, width: int, n_classes: int, generator: torch.Generator) -> "PoolerDecoder":
        """Create the module; the dense layer is drawn first."""
        return PoolerDecoder(width, n_classes, self.dropout, generator)


class PoolerDecoder(Classifier):
    """Module of `Pooler`."""

    def __init__(
        self, width: int, n_classes: int, dropout: float, generator: torch.Generator
    ) -> None:
        """Draw both layers as ``torch.nn.Linear`` would."""
        super().__init__(width, n_classes)
        self.dropout = dropout
        self.dense = linear_layer(width, width, generator)
        self.out = linear_layer(width, n_classes, generator)

    def forward(self, h: Fused, generator: torch.Generator | None = None) -> Logits:
        """Return logits; the products run in the autocast dtype."""
        pooled = full(self.dense(h)).tanh()
        return full(self.out(dropout(pooled, self.dropout, generator, training=self.training)))
