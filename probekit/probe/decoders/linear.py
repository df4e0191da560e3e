"""Linear decoders: dropout, then one linear layer, of classes or of sets of labels."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from probekit.base.numbers import linear_uniform
from probekit.base.tensors import full
from probekit.probe.decoders.contract import (
    UNSEEN_LOSS,
    Classifier,
    Decoder,
    DecoderSpec,
    Fused,
    LabelSetDecoder,
    Logits,
    Objective,
    Solution,
    check_rate,
    dropout,
)


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
    kinds: ClassVar[frozenset[str]] = frozenset({"tagging", "span", "sentence", "pair"})

    def __post_init__(self) -> None:
        """Check the rate."""
        check_rate(self.name, self.dropout)

    @property
    def objective(self) -> Objective:
        """Cross entropy, convex in weight and bias."""
        return "cross-entropy"

    def build(self, width: int, n_classes: int, generator: torch.Generator) -> Decoder:
        """Create the module; weight, then bias, are drawn as ``torch.nn.Linear`` would."""
        return LinearDecoder(width, n_classes, self.dropout, generator)


class LinearLayer(Decoder):
    """Dropout and a linear layer, whatever its logits mean."""

    def __init__(
        self, width: int, n_classes: int, dropout: float, generator: torch.Generator
    ) -> None:
        """Draw weight and bias from U(-1/sqrt(width), 1/sqrt(width))."""
        super().__init__(width, n_classes)
        self.dropout = dropout
        self.weight = linear_uniform(n_classes, width, fan_in=width, generator=generator)
        self.bias = linear_uniform(n_classes, fan_in=width, generator=generator)

    @property
    def affine(self) -> tuple[Tensor, Tensor]:
        """Weight (classes, width) and bias (classes)."""
        return self.weight, self.bias

    def forward(self, h: Fused, generator: torch.Generator | None = None) -> Logits:
        """Return logits; the product runs in the autocast dtype."""
        h = dropout(h, self.dropout, generator, training=self.training)
        return full(functional.linear(h, self.weight, self.bias))


class LinearDecoder(LinearLayer, Classifier):
    """Module of `Linear`."""

    @torch.no_grad()
    def load(self, solution: Solution) -> None:
        """Take weight and bias; a class that was not drawn has about the loss ``UNSEEN_LOSS``."""
        self.weight.zero_()
        self.bias.fill_(float(solution.bias.mean()) - UNSEEN_LOSS)
        self.weight[solution.present] = (solution.weight - solution.weight.mean(0)).to(self.weight)
        self.bias[solution.present] = solution.bias.to(self.bias)


@dataclass(frozen=True, kw_only=True)
class OneVsRest(Linear):
    """logits = W dropout(h) + b, trained with the sigmoid cross entropy, summed over the labels."""

    name: ClassVar[str] = "one-vs-rest"
    source: ClassVar[str] = "binary relevance; scikit-learn's OneVsRestClassifier"
    summary: ClassVar[str] = "dropout and one linear layer, a sigmoid and a threshold per label"
    kinds: ClassVar[frozenset[str]] = frozenset({"multilabel"})

    @property
    def objective(self) -> Objective:
        """Cross entropy of each label, convex in weight and bias."""
        return "sigmoid"

    def build(self, width: int, n_classes: int, generator: torch.Generator) -> "OneVsRestDecoder":
        """Create the module; weight, then bias, are drawn as ``torch.nn.Linear`` would."""
        return OneVsRestDecoder(width, n_classes, self.dropout, generator)


class OneVsRestDecoder(LinearLayer, LabelSetDecoder):
    """Module of `OneVsRest`."""

    @torch.no_grad()
    def load(self, solution: Solution) -> None:
        """Take weight and bias."""
        self.weight.copy_(solution.weight)
        self.bias.copy_(solution.bias)
