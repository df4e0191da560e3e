"""Losses by the logits of rows, for many problems at once, with their derivatives.

Everything is laid out (problems, logits, rows): a sum over the logits then runs along the rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor
from torch.nn import functional

MOST_CURVED = 64
"""Logits up to which their whole curvature is kept; beyond, its diagonal."""


Logits = Float[Tensor, "problems logits n"]

Extra = Float64[Tensor, "problems extra"]
"""A loss's own values, such as the transitions of a chain."""

Weights = Float[Tensor, "problems n"]
"""Of each row in each problem."""

Biases = Float64[Tensor, "problems logits"]

Bounds = Int64[Tensor, " bounds"]
"""Of the sentences in the rows."""

Predicted = Int64[Tensor, "problems n"] | Float[Tensor, "problems n"]


@dataclass(frozen=True, eq=False)
class Derivatives:
    """A loss over some rows, weighted and summed.

    Attributes:
        value: of each problem.
        by_logits: gradient by the logits.
        by_extra: gradient by the loss's own values.
        curvature: second derivative by the logits of a row, summed over rows; of more than
            ``MOST_CURVED`` logits its diagonal.
    """

    value: Float64[Tensor, " problems"]
    by_logits: Logits
    by_extra: Extra
    curvature: Float64[Tensor, "problems logits *more"]


class Loss(ABC):
    """A loss by the logits of rows.

    Attributes:
        n_logits: logits of a row.
        n_extra: values of its own, such as the transitions of a chain.
        even: whether every row bends it alike.
    """

    n_logits: int
    n_extra: int = 0
    even: bool = False

    def slices(self, rows: slice, most: int) -> Iterable[slice]:
        """Yield a block of rows in slices of so many at most, or of whole sentences."""
        for start in range(rows.start, rows.stop, most):
            yield slice(start, min(start + most, rows.stop))

    @abstractmethod
    def start(self, weights: Weights) -> Biases:
        """Return the biases to begin with."""

    @abstractmethod
    def derive(self, logits: Logits, extra: Extra, weights: Weights, rows: slice) -> Derivatives:
        """Return the loss over some rows, and its derivatives.

        Args:
            logits: of the rows; they may be overwritten.
            extra: the loss's own values.
            weights: of each row in each problem; they sum to 1 over all rows.
            rows: which of all rows these are.
        """

    @abstractmethod
    def predict(self, logits: Logits, extra: Extra, offsets: Bounds) -> Predicted:
        """Return the class or number of each row in each problem.

        Args:
            logits: of rows that may be of another split.
            extra: the loss's own values.
            offsets: bounds of the sentences in the rows.
        """


class Softmax(Loss):
    """Cross entropy of K classes."""

    def __init__(self, targets: Int64[Tensor, " n"], n_classes: int) -> None:
        """Keep the class of each row."""
        self._targets = targets
        self.n_logits = n_classes

    def start(self, weights: Weights) -> Biases:
        """Return the logarithms of the classes' shares."""
        return log_shares(self._targets, weights, self.n_logits)

    def derive(self, logits: Logits, extra: Extra, weights: Weights, rows: slice) -> Derivatives:
        """Return the cross entropy, and softmax - one-hot."""
        targets = self._targets[rows].expand(len(logits), 1, -1)
        p = logits.sub_(logits.amax(1, keepdim=True))
        lead = p.gather(1, targets)  # of the row's own class over the largest: 0 or less
        p.exp_()
        of_gold = lead.exp()
        rest = p.scatter(1, targets, 0.0).sum(1, keepdim=True)
        # Of a row that is told apart well, rest is tiny beside 1, and must not drown in it.
        losses = torch.where(lead == 0, rest.log1p(), (rest + of_gold).log() - lead)
        p.div_(rest + of_gold)
        value = (losses.squeeze(1).double() * weights).sum(1)
        weighted = p * weights.unsqueeze(1)
        curvature = self._curvature(p, weighted)
        wrong = rest / (rest + of_gold) * weights.unsqueeze(1)
        weighted.scatter_(1, targets, -wrong)
        return Derivatives(value, weighted, torch.zeros_like(extra), curvature)

    def predict(self, logits: Logits, extra: Extra, offsets: Bounds) -> Predicted:
        """Return the class with the largest logit."""
        return logits.argmax(1)

    def _curvature(self, p: Tensor, weighted: Tensor) -> Tensor:
        mean = weighted.sum(2).double()
        if self.n_logits > MOST_CURVED:
            return mean - (p * weighted).sum(2).double()
        return torch.diag_embed(mean) - (weighted @ p.transpose(1, 2)).double()


class Binary(Loss):
    """Cross entropy of two classes by one logit, that of the second against the first."""

    n_logits = 1

    def __init__(self, targets: Int64[Tensor, " n"]) -> None:
        """Keep the sign of each row."""
        self._signs = (2 * targets - 1).float()

    def start(self, weights: Weights) -> Biases:
        """Return the log odds of the second class."""
        second = ((self._signs > 0) * weights.double()).sum(1, keepdim=True)
        total = weights.double().sum(1, keepdim=True)
        return (second.clamp(min=1e-12) / (total - second).clamp(min=1e-12)).log()

    def derive(self, logits: Logits, extra: Extra, weights: Weights, rows: slice) -> Derivatives:
        """Return the logistic loss, and its derivatives."""
        signs = self._signs[rows]
        margins = logits.squeeze(1) * signs
        value = (functional.softplus(-margins).double() * weights).sum(1)
        wrong = torch.sigmoid(-margins)
        by_logits = -(signs * wrong * weights)
        curvature = (wrong * (1 - wrong) * weights).sum(1).double().view(-1, 1, 1)
        return Derivatives(value, by_logits.unsqueeze(1), torch.zeros_like(extra), curvature)

    def predict(self, logits: Logits, extra: Extra, offsets: Bounds) -> Predicted:
        """Return 1 where the logit is above 0, else 0."""
        return (logits.squeeze(1) > 0).long()


class Squares(Loss):
    """Half the squared error of one number."""

    n_logits, even = 1, True

    def __init__(self, targets: Float64[Tensor, " n"]) -> None:
        """Keep the number of each row."""
        self._targets = targets

    def start(self, weights: Weights) -> Biases:
        """Return the means."""
        total = weights.double().sum(1, keepdim=True)
        return (self._targets * weights.double()).sum(1, keepdim=True) / total

    def derive(self, logits: Logits, extra: Extra, weights: Weights, rows: slice) -> Derivatives:
        """Return half the squared errors, and the errors."""
        errors = logits.squeeze(1) - self._targets[rows].float()
        weighted = errors * weights
        value = (errors.double() * weighted).sum(1) / 2
        curvature = weights.double().sum(1).view(-1, 1, 1)
        return Derivatives(value, weighted.unsqueeze(1), torch.zeros_like(extra), curvature)

    def predict(self, logits: Logits, extra: Extra, offsets: Bounds) -> Predicted:
        """Return the numbers."""
        return logits.squeeze(1)


def bends(by_logits: Logits, weights: Weights) -> Float[Tensor, "problems logits n"]:
    """Return every row's second derivative by each logit, of losses by probabilities.

    With a row's weight w the gradient is w p or -w (1 - p), and the second derivative w p (1 - p).
    """
    # A row of weight 0.5 with p = 0.2: the gradient is 0.1, and 0.1 - 0.01 / 0.5 = 0.5 * 0.2 * 0.8;
    # of its own class, p = 0.7, it is -0.15, and 0.15 - 0.0225 / 0.5 = 0.5 * 0.3 * 0.7.
    size = by_logits.abs()
    return (size - size.square() / weights.clamp(min=1e-30).unsqueeze(1)).clamp(min=0)


def log_shares(
    targets: Int64[Tensor, " n"], weights: Weights, n_classes: int
) -> Float64[Tensor, "problems classes"]:
    """Return the logarithm of each class's share in the rows, centred over the classes."""
    shares = weights.new_zeros(len(weights), n_classes, dtype=torch.float64)
    shares.index_add_(1, targets, weights.double())
    logs = shares.clamp(min=1e-12).log()
    return logs - logs.mean(1, keepdim=True)
