"""What chooses for the sentences of a reported split: those of dev, or those of its other half."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from probekit.base.numbers.seeding import numpy_generator
from probekit.results.comparison.resampled_groups import Groups
from probekit.results.overthinking.depth_predictions import DepthPredictions

Mask = Bool[np.ndarray, " sentences"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Chooser:
    """Sentences that choose, and those that they choose for.

    Attributes:
        on: predictions that choose.
        choosing: which of their sentences do, as how often each is counted: 0 or 1.
        judged: which sentences of the reported split they choose for.
    """

    on: DepthPredictions
    choosing: Float64[np.ndarray, "1 sentences"]
    judged: Mask


def choosers(
    reported: DepthPredictions, dev: DepthPredictions | None, seed: int
) -> tuple[Chooser, ...]:
    """Return what chooses for each sentence of a split: each sentence is judged once.

    Args:
        reported: the split.
        dev: the split that chooses; None chooses on each half of the reported one for the other.
        seed: of the halves.
    """
    if dev is not None:
        every = np.ones(reported.n_sentences, bool)
        return (Chooser(on=dev, choosing=np.ones((1, dev.n_sentences)), judged=every),)
    one, two = halves(reported.groups, seed)
    return tuple(
        Chooser(on=reported, choosing=choosing[None].astype(np.float64), judged=judged)
        for judged, choosing in ((one, two), (two, one))
    )


def chosen_on(dev: DepthPredictions | None) -> str:
    """Return the name of the split that chooses, or ``halves``."""
    return "halves" if dev is None else dev.split


def halves(groups: Groups, seed: int) -> tuple[Mask, Mask]:
    """Return two halves of a split's sentences, which the seed alone decides; none cuts a group."""
    n = groups.drawn.n
    chosen = np.zeros((1, n))
    chosen[0, numpy_generator(seed, "halves", n).permutation(n)[: (n + 1) // 2]] = 1
    first = groups.counts(chosen)[0] > 0
    return first, ~first
