"""Pooler decoder: dense, tanh, dropout and a linear layer; the papers' for encoders' sentences."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from probekit.base.numbers import linear_layer
from probekit.base.tensors import full
from probekit.probe.decoders.contract import (
    Classifier,
    DecoderSpec,
    Fused,
    Logits,
    check_rate,
    dropout,
)


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
