"""CRF decoder: a linear-chain conditional random field over the tags of a sentence.

A path y_1..y_T of tags scores ``start[y_1] + sum_t emissions[t, y_t] + sum_t transitions[y_t,
y_t+1] + end[y_T]`` (Lafferty et al. 2001). One Python loop runs over the words of the longest
sentence, with all sentences side by side, word by word, without padding.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from probekit.errors import OptionError
from probekit.probe.decoders.contract import (
    UNSEEN_LOSS,
    Decoder,
    DecoderSpec,
    Fused,
    Logits,
    LogProbabilities,
    Losses,
    Objective,
    Offsets,
    Solution,
    Targets,
    check_rate,
)
from probekit.probe.decoders.linear import MLP, Linear
from probekit.probe.model_parts import Groups, divide

LARGEST = 60.0
"""Transitions up to this size have exponentials that float32 holds and can sum."""


@dataclass(frozen=True, eq=False)
class Chain:
    """What a path scores besides its emissions, of one problem or of several side by side.

    Attributes:
        transitions: score of tag j after tag i, at [i, j].
        start: score of a first tag.
        end: score of a last tag.
    """

    transitions: Float[Tensor, "*problems tags tags"]
    start: Float[Tensor, "*problems tags"]
    end: Float[Tensor, "*problems tags"]

    def reversed(self) -> "Chain":
        """Return the scores of the same paths from their last tag to their first."""
        return Chain(self.transitions.t(), self.end, self.start)

    def double(self) -> "Chain":
        """Return the same scores in float64."""
        return Chain(self.transitions.double(), self.start.double(), self.end.double())


@dataclass(frozen=True, eq=False)
class Packing:
    """The rows of some sentences in the order in which a recursion over words wants them.

    Sentences are sorted by falling length, so those that have a word t are the first
    ``sizes[t]``; packed rows hold word 0 of these, then word 1, and so on. Empty sentences have no
    place.

    Attributes:
        rows: row of each packed place.
        sizes: number of sentences that have a word t; falling, none is 0.
        sentences: number of each packed sentence, longest first.
    """

    rows: Int64[Tensor, " rows"]
    sizes: tuple[int, ...]
    sentences: Int64[Tensor, " packed"]


def pack(offsets: Int64[Tensor, " bounds"]) -> Packing:
    """Return the packing of sentences that own rows ``offsets[s]:offsets[s + 1]``."""
    # Sentences of 2, 0 and 3 words, offsets 0 2 2 5, whose rows are 0 1 | 2 3 4:
    #
    #   order     2 0              the longest first, without the empty one
    #   present   word 0: 1 1      two sentences have a word 0, so sizes[0] is 2
    #             word 1: 1 1      sizes[1] is 2
    #             word 2: 1 0      sizes[2] is 1: sentence 0 has ended, and is the last of the two
    #   rows      2 0 | 3 1 | 4    word by word
    #
    # The state of a recursion is one row per sentence, and at word t the first sizes[t] go on.
    lengths = offsets.diff()
    order = lengths.argsort(descending=True, stable=True)
    order = order[lengths[order] > 0]
    lengths = lengths[order]
    words = torch.arange(int(lengths[0]) if len(lengths) else 0, device=offsets.device)
    present = words[:, None] < lengths
    rows = (offsets[order] + words[:, None])[present]
    return Packing(rows, tuple(present.sum(1).tolist()), order)


def log_partition(
    chain: Chain, emissions: Float[Tensor, "*problems rows tags"], packing: Packing
) -> Float[Tensor, "*problems packed"]:
    """Return log sum exp of the scores of all paths of each packed sentence (forward algorithm).

    Args:
        chain: the other scores.
        emissions: packed rows, one or more; minus infinity forbids a tag, but never all of a row.
        packing: where the sentences lie.
    """
    first, *rest = torch.split(emissions, list(packing.sizes), -2)
    alpha, done = chain.start.unsqueeze(-2) + first, list[Tensor]()
    odds = _odds(chain)
    for word in rest:
        alpha = _leave(alpha, word.shape[-2], done)
        alpha = _sum_paths(alpha, chain, odds) + word
    return (torch.cat([alpha, *reversed(done)], -2) + chain.end.unsqueeze(-2)).logsumexp(-1)


def log_marginals(
    chain: Chain, emissions: Float[Tensor, "rows tags"], packing: Packing
) -> Float[Tensor, "rows tags"]:
    """Return, packed, log p(tag of a word | sentence), summed over all paths (forward-backward).

    Args:
        chain: the other scores.
        emissions: packed rows, one or more.
        packing: where the sentences lie.
    """
    words, odds = torch.split(emissions, list(packing.sizes)), _odds(chain)
    forward = [chain.start + words[0]]
    for word in words[1:]:
        forward.append(_sum_paths(forward[-1][: len(word)], chain, odds) + word)
    # The recursion from the last word is the same one along the chain read backwards. Of sentences
    # of 3 and 2 words (sizes 2 2 1), at word 1 the first has what follows its word, word 2, and the
    # second, which ends there, has the scores of last tags alone.
    back, odds = chain.reversed(), None if odds is None else odds.t()
    following = chain.end.expand(len(words[-1]), -1)
    backward = [following]
    for word, size in zip(reversed(words[1:]), reversed(packing.sizes[:-1]), strict=True):
        ending = chain.end.expand(size - len(word), -1)
        following = torch.cat([_sum_paths(following + word, back, odds), ending])
        backward.append(following)
    return (torch.cat(forward) + torch.cat(backward[::-1])).log_softmax(1)


def best_paths(
    chain: Chain, emissions: Float[Tensor, "rows tags"], packing: Packing
) -> Int64[Tensor, " rows"]:
    """Return the tags, packed, of each sentence's path with the largest score (Viterbi).

    Of equal paths, the one with the smallest last tag is taken, then the smallest tag before it,
    and so on.
    """
    first, *rest = torch.split(emissions, list(packing.sizes))
    score, done, back = chain.start + first, list[Tensor](), list[Tensor]()
    for word in rest:
        score = _leave(score, len(word), done)
        score, before = (score.unsqueeze(2) + chain.transitions).max(1)
        score = score + word
        back.append(before)
    last = (torch.cat([score, *reversed(done)]) + chain.end).argmax(1)
    return _follow(back, last, packing.sizes)


def _odds(chain: Chain) -> Tensor | None:
    """Return exp(transitions), None where one is too large or small for sums in float32."""
    moderate = bool(chain.transitions.detach().abs().max() <= LARGEST)
    return chain.transitions.exp() if moderate else None


def _sum_paths(alpha: Tensor, chain: Chain, odds: Tensor | None) -> Tensor:
    """Return log sum_i exp(alpha_i + transitions_ij).

    A matrix product with ``odds`` (of `_odds`) is 15 times faster.
    """
    if odds is None:
        return (alpha.unsqueeze(-1) + chain.transitions.unsqueeze(-3)).logsumexp(-2)
    peak = alpha.detach().amax(-1, keepdim=True)  # it cancels, so it needs no gradient
    return ((alpha - peak).exp() @ odds).log() + peak


def _leave(state: Tensor, n_left: int, done: list[Tensor]) -> Tensor:
    """Move the state of sentences that have ended to ``done``; return that of the others."""
    # Sentences lie longest first, so those that end are the last ones, and `done` read backwards
    # behind the states of the longest is every sentence's last state, in the packed order.
    if n_left == state.shape[-2]:
        return state
    done.append(state[..., n_left:, :])
    return state[..., :n_left, :]


def _follow(back: list[Tensor], last: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Return packed tags: from each sentence's last tag along the pointers to the word before."""
    # Backwards through 2 0 | 3 1 | 4 of `pack`, sizes 2 2 1: from the last tag of sentence 2 alone
    # (size 1) to word 1, where its pointer gives one tag and sentence 0, which ends there, begins
    # with its own last tag; then both follow their pointers to word 0.
    tag = last[: sizes[-1]]
    tags = [tag]
    for before, size in zip(reversed(back), reversed(sizes[:-1]), strict=True):
        previous = before.gather(1, tag.unsqueeze(1)).squeeze(1)
        tag = torch.cat([previous, last[len(previous) : size]])
        tags.append(tag)
    return torch.cat(tags[::-1])


@dataclass(frozen=True, kw_only=True)
class CRF(DecoderSpec):
    """p(tags | sentence) = exp(score of the path) / sum over all paths; predicts the best path.

    Emissions are the logits of `Linear`, or of `MLP` when ``hidden`` is not 0. Transitions and the
    scores of first and last tags start at 0, where the CRF is its emissions alone. They have a rate
    of their own, because at 2e-3 they stay within 0.2 of zero.

    Attributes:
        hidden: width of two hidden layers below the emissions; 0 is none.
        dropout: as in `Linear` and `MLP`.
    """

    hidden: int = 0
    dropout: float = 0.1

    name: ClassVar[str] = "crf"
    source: ClassVar[str] = "Lafferty et al. 2001; attention fusion, section 4"
    summary: ClassVar[str] = "linear-chain CRF over the tags of a sentence"
    kinds: ClassVar[frozenset[str]] = frozenset({"tagging"})
    group_rates: ClassVar[Mapping[str, float | None]] = {"transitions": 0.1}

    def __post_init__(self) -> None:
        """Check width and rate."""
        if self.hidden < 0:
            raise OptionError(f"crf: hidden must be 0 or more, found {self.hidden}.")
        check_rate(self.name, self.dropout)

    @property
    def objective(self) -> Objective | None:
        """The paths' likelihood, convex in emissions and transitions without hidden layers."""
        return None if self.hidden else "chain"

    def build(self, width: int, n_classes: int, generator: torch.Generator) -> "CRFDecoder":
        """Create the module; only the emissions are drawn."""
        layers: Linear | MLP = Linear(dropout=self.dropout)
        if self.hidden:
            layers = MLP(hidden=self.hidden, dropout=self.dropout)
        return CRFDecoder(layers.build(width, n_classes, generator))


class CRFDecoder(Decoder):
    """Module of `CRF`; its logits are the emissions.

    The tag of a row that does not count is summed out, and so is that of a class the decoder does
    not know, which costs ``UNSEEN_LOSS`` besides.
    """

    def __init__(self, emission: Decoder) -> None:
        """Add transitions to the decoder that gives the emissions."""
        n_tags = emission.n_classes
        super().__init__(emission.width, n_tags)
        self.emission = emission
        self.transitions = nn.Parameter(torch.zeros(n_tags, n_tags))
        self.start = nn.Parameter(torch.zeros(n_tags))
        self.end = nn.Parameter(torch.zeros(n_tags))

    @property
    def affine(self) -> tuple[Tensor, Tensor] | None:
        """Weight and bias of the emissions, if they are affine."""
        return self.emission.affine

    def parameter_groups(self) -> Groups:
        """Return transitions and the scores of both ends as ``transitions``."""
        transitions = (self.transitions, self.start, self.end)
        return divide(self, transitions=transitions)

    @torch.no_grad()
    def load(self, solution: Solution) -> None:
        """Take emissions and transitions; a tag that was not drawn is the last to follow."""
        self.emission.load(solution)
        (transitions, *ends), present = solution.chain, solution.present
        self.transitions.fill_(float(transitions.min()))
        self.transitions[present.unsqueeze(1), present] = transitions.to(self.transitions)
        for at_end, scores in zip((self.start, self.end), ends, strict=True):
            at_end.fill_(float(scores.min()))
            at_end[present] = scores.to(at_end)

    def forward(self, h: Fused, generator: torch.Generator | None = None) -> Logits:
        """Return the emissions; the products run in the autocast dtype."""
        return self.emission(h, generator)

    def row_losses(self, logits: Logits, targets: Targets, offsets: Offsets = None) -> Losses:
        """Return each sentence's negative log-likelihood in nats on its first row."""
        # Sentences of 2, 0 and 1 words (offsets 0 2 2 3) with targets 4 -100 | 9, of which 9 is no
        # class: known words 1 0 0, unseen ones 0 0 1. The first has the loss of its 4, whatever its
        # other tag; the last has ``UNSEEN_LOSS``; they stand in rows 0 and 2, and row 1 has 0.
        offsets = _bounds(logits, offsets)
        first, lengths = offsets[:-1], offsets.diff()
        sentence = torch.arange(len(first), device=logits.device).repeat_interleave(lengths)
        unseen = targets >= self.n_classes
        known = self.counted(targets) & ~unseen
        n_known, n_unseen = (
            torch.zeros_like(first).index_add_(0, sentence, marks.long())
            for marks in (known, unseen)
        )
        likelihoods = self._likelihoods(logits, targets, known, offsets)
        losses = torch.where(n_known > 0, -likelihoods, 0.0)
        losses = losses + n_unseen.to(losses.dtype) * UNSEEN_LOSS
        here = lengths > 0
        return torch.zeros_like(logits[:, 0]).index_put((first[here],), losses[here])

    def predict(self, logits: Logits, offsets: Offsets = None) -> Int64[Tensor, " rows"]:
        """Return the tags of each sentence's best path."""
        packing = pack(_bounds(logits, offsets))
        tags = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
        if len(logits):
            tags[packing.rows] = best_paths(self._chain(), logits[packing.rows], packing)
        return tags

    def log_probabilities(self, logits: Logits, offsets: Offsets = None) -> LogProbabilities:
        """Return the log marginal probability of each tag at each word.

        The tag that is most probable by itself need not be that of the best path.
        """
        packing = pack(_bounds(logits, offsets))
        log_p = torch.empty_like(logits, dtype=torch.float64)
        if len(logits):
            emissions = logits[packing.rows].double()
            log_p[packing.rows] = log_marginals(self._chain().double(), emissions, packing)
        return log_p

    def _likelihoods(
        self, logits: Tensor, targets: Tensor, known: Tensor, offsets: Tensor
    ) -> Tensor:
        """Return each sentence's log p(known tags): the paths that agree with them, over all.

        Both sums run side by side, the first as a second copy of the sentences whose emissions
        forbid the other tags.
        """
        n_rows, n_sentences = len(logits), len(offsets) - 1
        if n_rows == 0:
            return logits.new_zeros(n_sentences) + logits.sum()  # of a graph, as any other loss
        other = targets[:, None] != torch.arange(self.n_classes, device=logits.device)
        agreeing = logits.masked_fill(other & known[:, None], -math.inf)
        packing = pack(torch.cat([offsets, offsets[1:] + n_rows]))
        with torch.autocast(logits.device.type, enabled=False):
            emissions = torch.cat([logits, agreeing])[packing.rows]
            sums = log_partition(self._chain(), emissions, packing)
        sums = sums.new_zeros(2 * n_sentences).index_put((packing.sentences,), sums)
        return sums[n_sentences:] - sums[:n_sentences]

    def _chain(self) -> Chain:
        return Chain(self.transitions, self.start, self.end)


def _bounds(logits: Tensor, offsets: Tensor | None) -> Tensor:
    """Return the sentences' bounds; without any, all rows are one sentence."""
    if offsets is not None:
        return offsets
    return torch.tensor([0, len(logits)], device=logits.device)
