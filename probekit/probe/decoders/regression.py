"""Regression decoder: dropout, then one linear layer to a number, trained by squared error."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from probekit.base.numbers import linear_layer
from probekit.probe.decoders.contract import (
    Decoder,
    DecoderSpec,
    Fused,
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
