"""What every decoder promises: logits of fused rows, a loss, predictions; and its dropout."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Bool, Float, Float64, Int8, Int64, Shaped
from torch import Tensor, nn
from torch.nn import functional

from probekit.errors import OptionError
from probekit.probe.model_parts import Groups, divide

Objective = Literal["cross-entropy", "chain", "sigmoid", "squares"]
"""Losses that a solver knows: of rows by class, of paths of tags, of sets of labels, of numbers."""

Fused = Float[Tensor, "rows width"]
"""The rows h that a head gives."""

Logits = Float[Tensor, "rows classes"]

Targets = Int64[Tensor, " rows"] | Float[Tensor, "rows ..."] | Int8[Tensor, "rows labels"]
"""Class ids, or numbers; or 1 for each label that a row has and 0 for the others, or its scores."""

Losses = Float[Tensor, " rows"]

LogProbabilities = Float64[Tensor, "rows classes"]

Offsets = Int64[Tensor, " bounds"] | None
"""Example e owns rows ``offsets[e]:offsets[e + 1]``; None is one example."""

IGNORED = -100
"""Target of a row that takes no part in the loss, where targets are class ids."""

UNSEEN_LOSS = -math.log(1e-12)
"""Loss in nats of a row whose class the decoder does not know (its label is not in train)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """What a solver found for a decoder.

    Attributes:
        weight: of the logits of h.
        bias: of the same.
        present: the class of each of these logits; a class that was not drawn has no score. Empty
            for numbers.
        chain: transitions, first and last scores of these classes, of a chain.
    """

    weight: Float[Tensor, "k width"]
    bias: Float[Tensor, " k"]
    present: Shaped[Tensor, " drawn"]
    chain: Sequence[Tensor] = ()


class Decoder(nn.Module, ABC):
    """Turns fused rows h into logits, a training loss and predictions.

    Decoders that score each row alone ignore ``offsets``; those that score whole sentences need
    them.

    Targets are class ids, -100 for a row that does not count; a decoder of numbers takes floats,
    NaN for a row that does not count; one of sets of labels a column per label, and -100 in all
    columns of a row that does not count.

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
        """Weight and bias of the map from h to logits in evaluation mode, if it is affine.

        None also where folding the map into a head would cost more than it saves.
        """
        return None

    @property
    def logit_weight(self) -> Float[Tensor, "classes width"] | None:
        """Weight of the map from h to the logits in evaluation mode, if that is affine."""
        return None if self.affine is None else self.affine[0]

    def fit_targets(self, targets: Targets) -> None:
        """Learn what the decoder must know of the train targets before the first step.

        Called once, with all of them; most decoders need nothing.
        """

    def parameter_groups(self) -> Groups:
        """Return the parameters by group, each of which may have a learning rate of its own.

        ``transitions`` is what a chain scores besides its emissions, ``weights`` everything else.
        Groups besides ``weights`` are those of the spec's ``group_rates``.
        """
        return divide(self)

    def load(self, solution: Solution) -> None:
        """Take the values that a solver found; only for decoders with an objective."""
        raise NotImplementedError(f"{type(self).__name__} is not solved")

    @abstractmethod
    def forward(self, h: Fused, generator: torch.Generator | None = None) -> Logits:
        """Return logits in float32 or float64 (float64 for float64 input).

        Args:
            h: fused rows.
            generator: source of dropout masks, on h's device; needed in training mode by decoders
                with dropout, never used in evaluation mode. The global generator is left alone,
                so members trained side by side do not disturb each other.
        """

    @abstractmethod
    def row_losses(self, logits: Logits, targets: Targets, offsets: Offsets = None) -> Losses:
        """Return each row's share of the loss; it is 0 for rows that do not count.

        For class ids that is the negative log-likelihood in nats, ``UNSEEN_LOSS`` for a class id
        of ``n_classes`` or more. A decoder that scores whole sentences puts a sentence's loss on
        its first row. A decoder of numbers gives the squared error.
        """

    @abstractmethod
    def predict(self, logits: Logits, offsets: Offsets = None) -> Targets:
        """Return one class id per row, or one number; of sets of labels a score for each."""

    def log_probabilities(self, logits: Logits, offsets: Offsets = None) -> LogProbabilities | None:
        """Return the logarithm of each class's probability in each row; None of numbers.

        In float64: their exponentials sum to 1 within 1e-12, save of labels that a row may have
        together.
        """
        return None

    def loss(self, logits: Logits, targets: Targets, offsets: Offsets = None) -> Float[Tensor, ""]:
        """Return the training loss: the mean of `row_losses` over rows that count, 0 without any.

        All targets must be below ``n_classes``.
        """
        total = self.row_losses(logits, targets, offsets).sum()
        return total / self.counted(targets).sum().clamp(min=1)

    def counted(self, targets: Targets) -> Bool[Tensor, " rows"]:
        """Return which rows count."""
        return targets != IGNORED


class Classifier(Decoder):
    """A decoder whose rows are independent: softmax over the logits."""

    def loss(self, logits: Logits, targets: Targets, offsets: Offsets = None) -> Float[Tensor, ""]:
        """Return the mean cross entropy over the rows whose target is not -100, 0 without any."""
        total = functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum")
        return total / (targets != IGNORED).sum().clamp(min=1)

    def row_losses(self, logits: Logits, targets: Targets, offsets: Offsets = None) -> Losses:
        """Return the cross entropy of each row in nats."""
        unseen = targets >= self.n_classes
        seen = targets.masked_fill(unseen, IGNORED)
        losses = functional.cross_entropy(logits, seen, ignore_index=IGNORED, reduction="none")
        return losses.masked_fill(unseen, UNSEEN_LOSS)

    def predict(self, logits: Logits, offsets: Offsets = None) -> Int64[Tensor, " rows"]:
        """Return the class with the largest logit in each row."""
        return logits.argmax(1)

    def log_probabilities(self, logits: Logits, offsets: Offsets = None) -> LogProbabilities:
        """Return log softmax of the logits."""
        return logits.double().log_softmax(1)


class LabelSetDecoder(Decoder):
    """A decoder of sets of labels: a sigmoid over each logit, whatever the others are.

    Attributes:
        thresholds: logit above which a row has the label; chosen on dev, see `best_thresholds`.
    """

    thresholds: Float64[Tensor, " labels"]

    def __init__(self, width: int, n_classes: int) -> None:
        """Begin with the thresholds at a probability of one half."""
        super().__init__(width, n_classes)
        self.register_buffer("thresholds", torch.zeros(n_classes, dtype=torch.float64))

    def row_losses(self, logits: Logits, targets: Targets, offsets: Offsets = None) -> Losses:
        """Return the cross entropy of each row's set in nats: the sum over the labels.

        Each label beyond ``n_classes`` that a row has costs ``UNSEEN_LOSS``.
        """
        has = targets == 1
        known = has[:, : self.n_classes].to(logits.dtype)
        losses = functional.binary_cross_entropy_with_logits(logits, known, reduction="none").sum(1)
        losses = losses + UNSEEN_LOSS * has[:, self.n_classes :].sum(1)
        return losses.masked_fill(~self.counted(targets), 0.0)

    def predict(self, logits: Logits, offsets: Offsets = None) -> Float[Tensor, "rows labels"]:
        """Return each label's logit less its threshold: above 0 where a row has the label."""
        return (logits.double() - self.thresholds).float()

    def log_probabilities(self, logits: Logits, offsets: Offsets = None) -> LogProbabilities:
        """Return log sigmoid of the logits."""
        return functional.logsigmoid(logits.double())

    def counted(self, targets: Targets) -> Bool[Tensor, " rows"]:
        """Return which rows count."""
        return targets[:, 0] != IGNORED


@dataclass(frozen=True, kw_only=True)
class DecoderSpec(ABC):
    """A decoder's name and hyper-parameters: a value that builds the module.

    The arguments of the constructor are its options; a field with ``init=False`` is no option, and
    is no part of the dict form.

    Attributes:
        name: key in ``DECODERS``.
        source: paper.
        summary: one line for people.
        group_rates: the module's groups of parameters besides ``weights``, each with the rate that
            it has by default where that is not the head's.
        kinds: kinds of label column that it decodes, names of ``KINDS``.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    summary: ClassVar[str]
    kinds: ClassVar[frozenset[str]]
    group_rates: ClassVar[Mapping[str, float | None]] = {}

    def to_json(self) -> dict[str, Any]:
        """Return the name and hyper-parameters; ``decoder_from_json`` is the inverse."""
        options = {field.name: getattr(self, field.name) for field in fields(self) if field.init}
        return {"name": self.name, **options}

    def bind(self, entry_backbone: Path) -> Self:
        """Return the same decoder knowing where the entry keeps small parts of the backbone.

        Args:
            entry_backbone: the ``backbone/`` folder of the train split's entry. Most decoders do
                not look at it.
        """
        return self

    @property
    def objective(self) -> Objective | None:
        """The loss that is convex in all trained values; None where it is not."""
        return None

    @abstractmethod
    def build(self, width: int, n_classes: int, generator: torch.Generator) -> Decoder:
        """Create the module with fresh parameters.

        Args:
            width: width of h, ``FusionHead.width``.
            n_classes: number of classes; a decoder whose number of logits is fixed (regression,
                vocabulary) does not look at it.
            generator: the only source of randomness, on the CPU.
        """


_DROPOUT_STEPS = 2**16


def dropout(
    x: Fused, rate: float, generator: torch.Generator | None, *, training: bool = True
) -> Fused:
    """Zero each element with probability ``rate`` and scale the rest by 1 / (1 - rate).

    Where nothing is trained, x is returned as it is.

    Raises:
        OptionError: ``rate`` is above 0 and there is no generator.
    """
    if rate == 0 or not training:
        return x
    if generator is None:
        raise OptionError(
            "dropout in training mode draws its masks from a generator: pass generator=, or "
            "call .eval() to score."
        )
    return x * dropout_mask(x, rate, generator)


def dropout_mask(like: Fused, rate: float, generator: torch.Generator) -> Fused:
    """Return what dropout multiplies with: 0 with probability ``rate``, else 1 / (1 - rate).

    Sixteen random bits decide on an element, so the rate that is used, in the scale too, is the
    nearest of 65,536: ``bernoulli_`` takes three times as long (``benchmarks/dropout_masks.py``).
    """
    count = like.numel()
    numbers = torch.empty(-(-count // 4), dtype=torch.int64, device=like.device)
    bits = numbers.random_(-(2**63), None, generator=generator).view(torch.int16)[:count]
    dropped = min(round(rate * _DROPOUT_STEPS), _DROPOUT_STEPS - 1)
    keep = bits.view(like.shape) >= dropped - _DROPOUT_STEPS // 2
    return keep.to(like.dtype).mul_(_DROPOUT_STEPS / (_DROPOUT_STEPS - dropped))


def check_rate(decoder: str, rate: float) -> None:
    """Raise OptionError unless a dropout rate lies in [0, 1)."""
    if not 0 <= rate < 1:
        raise OptionError(f"{decoder}: dropout must be in [0, 1), found {rate}.")
