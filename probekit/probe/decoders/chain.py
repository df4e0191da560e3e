"""Linear chains over packed sentences: log partition functions, marginals and best paths.

A path y_1..y_T of tags scores ``start[y_1] + sum_t emissions[t, y_t] + sum_t transitions[y_t,
y_t+1] + end[y_T]`` (Lafferty et al. 2001). One Python loop runs over the words of the longest
sentence, with all sentences side by side, word by word, without padding.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

LARGEST = 60.0
"""Transitions up to this size have exponentials that float32 holds and can sum."""


@dataclass(frozen=True, eq=False)
class Chain:
    """What a path scores besides its emissions.

    Attributes:
        transitions: score of tag j after tag i, at [i, j].
        start: score of a first tag.
        end: score of a last tag.
    """

    transitions: Float[Tensor, "tags tags"]
    start: Float[Tensor, " tags"]
    end: Float[Tensor, " tags"]

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
    chain: Chain, emissions: Float[Tensor, "rows tags"], packing: Packing
) -> Float[Tensor, " packed"]:
    """Return log sum exp of the scores of all paths of each packed sentence (forward algorithm).

    Args:
        chain: the other scores.
        emissions: packed rows, one or more; minus infinity forbids a tag, but never all of a row.
        packing: where the sentences lie.
    """
    first, *rest = torch.split(emissions, list(packing.sizes))
    alpha, done = chain.start + first, list[Tensor]()
    odds = _odds(chain)
    for word in rest:
        alpha = _leave(alpha, len(word), done)
        alpha = _sum_paths(alpha, chain, odds) + word
    return (torch.cat([alpha, *reversed(done)]) + chain.end).logsumexp(1)


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
        return (alpha.unsqueeze(2) + chain.transitions).logsumexp(1)
    peak = alpha.detach().amax(1, keepdim=True)  # it cancels, so it needs no gradient
    return ((alpha - peak).exp() @ odds).log() + peak


def _leave(state: Tensor, n_left: int, done: list[Tensor]) -> Tensor:
    """Move the state of sentences that have ended to ``done``; return that of the others."""
    # Sentences lie longest first, so those that end are the last ones, and `done` read backwards
    # behind the states of the longest is every sentence's last state, in the packed order.
    if n_left == len(state):
        return state
    done.append(state[n_left:])
    return state[:n_left]


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
