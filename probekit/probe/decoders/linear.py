"""Decoders of dropout and linear layers: of classes, of sets of labels, and of numbers."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from probekit.base.numbers import linear_layer, linear_uniform
from probekit.base.tensors import full
from probekit.errors import OptionError
from probekit.probe.decoders.contract import (
    UNSEEN_LOSS,
    Classifier,
    Decoder,
    DecoderSpec,
    Fused,
    LabelSetDecoder,
    Logits,
    Losses,
    Objective,
    Offsets,
    Solution,
    Targets,
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


@dataclass(frozen=True, kw_only=True)
class Regression(DecoderSpec):
    """value = mean + deviation (w . dropout(h) + b), trained with the squared error.

    Mean and deviation are those of the train targets, so that the linear layer starts at the right
    scale whatever the unit of the targets (STS-B: 0 to 5).

    Attributes:
        dropout: probability of zeroing an element of h in training.
    """

    dropout: float = 0.1

    name: ClassVar[str] = "regression"
    source: ClassVar[str] = "BERT on STS-B: a linear layer with one output and squared error"
    summary: ClassVar[str] = "dropout and one linear layer to a number"
    kinds: ClassVar[frozenset[str]] = frozenset({"regression"})

    def __post_init__(self) -> None:
        """Check the rate."""
        check_rate(self.name, self.dropout)

    @property
    def objective(self) -> Objective:
        """The squared error, convex in weight and bias."""
        return "squares"

    def build(self, width: int, n_classes: int, generator: torch.Generator) -> "RegressionDecoder":
        """Create the module; it has one output whatever ``n_classes`` is."""
        return RegressionDecoder(width, self.dropout, generator)


class RegressionDecoder(Decoder):
    """Module of `Regression`; its logits are values in the unit of the targets."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, width: int, dropout: float, generator: torch.Generator) -> None:
        """Draw the weight as ``torch.nn.Linear`` would; the bias starts at 0, the train mean."""
        super().__init__(width, 1)
        self.dropout = dropout
        self.weight = linear_layer(width, 1, generator).weight
        self.bias = torch.nn.Parameter(torch.zeros(1))
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("deviation", torch.ones((), dtype=torch.float64))

    @property
    def logit_weight(self) -> Tensor:
        """Weight of the value in the unit of the targets, shape (1, width)."""
        return self.deviation * self.weight

    def fit_targets(self, targets: Targets) -> None:
        """Keep mean and standard deviation; equal targets have deviation 1, so that it divides."""
        numbers = targets[self.counted(targets)].double()
        if len(numbers) == 0:
            return
        equal = bool((numbers == numbers[0]).all())
        self.mean.fill_(float(numbers.mean()))
        self.deviation.fill_(1.0 if equal else float(numbers.std(correction=0)))

    @torch.no_grad()
    def load(self, solution: Solution) -> None:
        """Take weight and bias of numbers in standard units."""
        self.weight.copy_(solution.weight)
        self.bias.copy_(solution.bias)

    def forward(self, h: Fused, generator: torch.Generator | None = None) -> Logits:
        """Return values in float64, shape (rows, 1), also under autocast.

        In bfloat16 values near 4 would lie 0.016 apart, in float32 those near 1.7e9 (seconds since
        1970) 128, and ties move a rank correlation.
        """
        h = dropout(h, self.dropout, generator, training=self.training)
        with torch.autocast(h.device.type, enabled=False):
            standard = functional.linear(h.to(self.weight.dtype), self.weight, self.bias)
        return self.mean + self.deviation * standard.double()

    def row_losses(self, logits: Logits, targets: Targets, offsets: Offsets = None) -> Losses:
        """Return the squared error of each row, 0 where the target is NaN."""
        values = logits[:, 0]
        numbers = torch.where(self.counted(targets), targets.to(values.dtype), values)
        return (values - numbers).square()

    def predict(self, logits: Logits, offsets: Offsets = None) -> Float[Tensor, " rows"]:
        """Return the value of each row."""
        return logits[:, 0]

    def counted(self, targets: Targets) -> Bool[Tensor, " rows"]:
        """Return which rows have a number (-100 is one)."""
        return ~targets.isnan()


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
