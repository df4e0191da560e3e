"""The likelihood of paths of tags, for many linear chains at once.

-log p(y) = log sum over paths exp(score) - score(y), with the scores of `decoders.chain`. The
objective is convex in emissions, transitions and the scores of first and last tags together.
"""

import itertools
from collections.abc import Iterable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.numbers.ragged import block_bounds
from probekit.probe.decoders.chain import Chain, Packing, best_paths, pack
from probekit.probe.fitters.losses import (
    MOST_CURVED,
    Biases,
    Bounds,
    Derivatives,
    Extra,
    Logits,
    Loss,
    Predicted,
    Weights,
    log_shares,
)

LEAST_ROWS = 2048
"""Words that are worth a loop over the words of the longest sentence."""


class ChainLoss(Loss):
    """Negative log-likelihood of sentences' tags; a row's weight stands for its sentence's."""

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
            sums = _partitions(emissions[:, packing.rows], *self.split(chain), packing)
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


def _partitions(
    emissions: Float[Tensor, "problems packed tags"],
    transitions: Float[Tensor, "problems tags tags"],
    start: Float[Tensor, "problems tags"],
    end: Float[Tensor, "problems tags"],
    packing: Packing,
) -> Float[Tensor, "problems sentences"]:
    """Return log sum exp of the scores of all paths of each packed sentence (forward algorithm)."""
    first, *rest = torch.split(emissions, list(packing.sizes), 1)
    peaks = transitions.detach().amax((1, 2), keepdim=True)
    odds = (transitions - peaks).exp()
    alpha, done = start.unsqueeze(1) + first, []
    for word in rest:
        n_going = word.shape[1]
        done.append(alpha[:, n_going:])
        alpha = alpha[:, :n_going]
        peak = alpha.detach().amax(2, keepdim=True)
        alpha = ((alpha - peak).exp() @ odds).clamp(min=1e-300).log() + peak + peaks + word
    alpha = torch.cat([alpha, *reversed(done)], 1)
    return (alpha + end.unsqueeze(1)).logsumexp(2)
