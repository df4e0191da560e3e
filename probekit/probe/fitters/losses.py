"""Losses of rows, and of paths of tags, for many problems at once, with derivatives.

Everything is laid out (problems, logits, rows): a sum over the logits then runs along the rows.

-log p(y) = log sum over paths exp(score) - score(y), with the scores of `decoders.crf`. The
objective is convex in emissions, transitions and the scores of first and last tags together.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int8, Int64
from torch import Tensor
from torch.nn import functional

from probekit.base.numbers import block_bounds
from probekit.probe.decoders.crf import Chain, Packing, best_paths, log_partition, pack

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

Predicted = Int64[Tensor, "problems n"] | Float[Tensor, "problems n *labels"]


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
        apart: whether no logit bends another; else nothing changes if all grow alike.
        strictness: what the tolerance of its optimum is divided by.
    """

    n_logits: int
    n_extra: int = 0
    even: bool = False
    apart: bool = False
    strictness: float = 1.0

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
        """Return the class or number of each row in each problem, or a number per label.

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


class Logistic(Loss):
    """Cross entropy of K labels that a row may have together, summed over them."""

    apart = True

    def __init__(self, targets: Int8[Tensor, "n labels"] | Int64[Tensor, "n labels"]) -> None:
        """Keep the sign of each label in each row."""
        self._signs = (2 * targets.t() - 1).float().contiguous()
        self.n_logits = len(self._signs)

    def start(self, weights: Weights) -> Biases:
        """Return the log odds of each label."""
        total = weights.double().sum(1, keepdim=True)
        having = weights.double() @ (self._signs > 0).double().t()
        return (having.clamp(min=1e-12) / (total - having).clamp(min=1e-12)).log()

    def derive(self, logits: Logits, extra: Extra, weights: Weights, rows: slice) -> Derivatives:
        """Return the logistic losses, and their derivatives; no label bends another's."""
        signs, weights = self._signs[:, rows], weights.unsqueeze(1)
        margins = logits.mul_(signs)
        value = (functional.softplus(-margins).double() * weights).sum((1, 2))
        wrong = torch.sigmoid(-margins)
        bent = (wrong * (1 - wrong) * weights).sum(2).double()
        curvature = bent if self.n_logits > MOST_CURVED else torch.diag_embed(bent)
        return Derivatives(
            value, wrong.mul_(signs).mul_(-weights), torch.zeros_like(extra), curvature
        )


class Sigmoids(Logistic):
    """The loss of labels, each of which a row has or not."""

    strictness = 1000.0  # of a rare label, whose loss is a small part of the sum, as well

    def predict(self, logits: Logits, extra: Extra, offsets: Bounds) -> Predicted:
        """Return the logits of each row."""
        return logits.transpose(1, 2)


class Binary(Logistic):
    """Cross entropy of two classes by one logit, that of the second against the first."""

    def __init__(self, targets: Int64[Tensor, " n"]) -> None:
        """Keep the sign of each row."""
        super().__init__(targets.unsqueeze(1))

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


LEAST_ROWS = 2048
"""Words that are worth a loop over the words of the longest sentence."""


class ChainLoss(Loss):
    """Negative log-likelihood of sentences' tags; a row's weight stands for its sentence's."""

    strictness = 100.0  # along transitions the curvature is known less well

    def __init__(self, targets: Int64[Tensor, " n"], n_tags: int, offsets: Bounds) -> None:
        """Keep the tags and where sentences begin.

        Args:
            targets: tag of each row.
            n_tags: K.
            offsets: bounds of the sentences in the rows.
        """
        self.n_logits, self.n_extra = n_tags, n_tags * (n_tags + 2)
        self._targets, self._offsets = targets, offsets
        self._packings: dict[tuple[int, int], tuple[Packing, Tensor]] = {}

    def slices(self, rows: slice, most: int) -> Iterable[slice]:
        """Yield whole sentences: about ``LEAST_ROWS`` rows of them, or more."""
        inside = (self._offsets >= rows.start) & (self._offsets <= rows.stop)
        offsets = (self._offsets[inside] - rows.start).cpu().numpy()
        for start, stop in itertools.pairwise(block_bounds(offsets, max(most, LEAST_ROWS))):
            yield slice(rows.start + start, rows.start + stop)

    def start(self, weights: Weights) -> Biases:
        """Return the logarithms of the tags' shares."""
        return log_shares(self._targets, weights, self.n_logits)

    def derive(self, logits: Logits, extra: Extra, weights: Weights, rows: slice) -> Derivatives:
        """Return the likelihood of the sentences that the rows make up, and its derivatives."""
        packing, bounds = self._packed(rows)
        targets = self._targets[rows]
        # In float64: a sentence's two sums are large, and their difference is what counts.
        emissions = logits.transpose(1, 2).double().detach().requires_grad_()
        chain = extra.detach().requires_grad_()
        weights = weights.double()
        share = weights[:, bounds[:-1][packing.sentences]]
        with torch.enable_grad():
            sums = log_partition(Chain(*self.split(chain)), emissions[:, packing.rows], packing)
            value = (sums * share).sum(1) - self._gold(emissions, chain, weights, targets, bounds)
        by_emissions, by_extra = torch.autograd.grad(value.sum(), (emissions, chain))
        by_logits = by_emissions.transpose(1, 2)
        curvature = self._curvature(by_logits, weights, targets)
        return Derivatives(value.detach(), by_logits.float(), by_extra, curvature)

    def split(self, extra: Float[Tensor, "problems extra"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return transitions, first and last scores."""
        n_tags = self.n_logits
        transitions, start, end = torch.split(extra, [n_tags * n_tags, n_tags, n_tags], 1)
        return transitions.view(-1, n_tags, n_tags), start, end

    def predict(self, logits: Logits, extra: Extra, offsets: Bounds) -> Predicted:
        """Return the best paths of sentences, problem by problem."""
        packing = pack(offsets)
        paths = torch.empty(len(logits), logits.shape[2], dtype=torch.int64, device=logits.device)
        for path, emissions, *chain in zip(
            paths, logits.transpose(1, 2), *self.split(extra.float()), strict=True
        ):
            path[packing.rows] = best_paths(Chain(*chain), emissions[packing.rows], packing)
        return paths

    def _packed(self, rows: slice) -> tuple[Packing, Tensor]:
        # Sentences of 3, 0 and 2 words, whose rows are 4 to 8 of a split:
        #
        #   _offsets  ... 4 7 7 9 ...      and rows is slice(4, 9)
        #   bounds    0 3 3 5              from the first row of the slice on
        #   bounds    0 3 5                the empty sentence has no path, and goes
        #
        # Packed, rows are 0 3 | 1 4 | 2: word 0 of both sentences, then word 1, then word 2.
        key = rows.start, rows.stop
        if key not in self._packings:
            inside = (self._offsets >= rows.start) & (self._offsets <= rows.stop)
            bounds = self._offsets[inside] - rows.start
            bounds = torch.cat([bounds[:1], bounds[1:][bounds.diff() > 0]])  # no empty sentences
            self._packings[key] = pack(bounds), bounds
        return self._packings[key]

    def _gold(
        self, emissions: Tensor, extra: Tensor, weights: Tensor, targets: Tensor, bounds: Tensor
    ) -> Tensor:
        """Return the weighted sum of the scores of the sentences' own paths."""
        transitions, start, end = self.split(extra)
        index = targets.expand(len(emissions), -1).unsqueeze(2)
        total = (emissions.gather(2, index).squeeze(2) * weights).sum(1)
        # Of rows 0 1 2 | 3 4 (bounds 0 3 5) a sentence begins in 0 and 3, so rows 1, 2 and 4 follow
        # another: `after` is 1 2 4, and the steps go from tags 0 1 3 to tags 1 2 4.
        follows = torch.ones(len(targets), dtype=torch.bool, device=targets.device)
        follows[bounds[:-1]] = False
        after = follows.nonzero().squeeze(1)
        steps = transitions[:, targets[after - 1], targets[after]] * weights[:, after]
        first, last = bounds[:-1], bounds[1:] - 1
        ends = start[:, targets[first]] + end[:, targets[last]]
        return total + steps.sum(1) + (ends * weights[:, first]).sum(1)

    def _curvature(self, by_logits: Tensor, weights: Tensor, targets: Tensor) -> Tensor:
        """Return that of the tags' marginal probabilities, as if rows were independent."""
        marginals = by_logits.clone()
        index = targets.expand(len(marginals), 1, -1)
        marginals.scatter_add_(1, index, weights.unsqueeze(1))
        p = marginals / weights.clamp(min=1e-30).unsqueeze(1)
        if self.n_logits > MOST_CURVED:
            return marginals.sum(2) - (marginals * p).sum(2)
        return torch.diag_embed(marginals.sum(2)) - marginals @ p.transpose(1, 2)
