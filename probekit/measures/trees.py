"""Trees of sentences, and how well distances and depths of words agree with them.

Hewitt & Manning 2019, "A structural probe for finding syntax in word representations", section 3.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from probekit.metrics.number_metrics import pearson, ranks

Squared = Shaped[np.ndarray, "n n"]
"""A number for each pair of words of a sentence."""

LENGTHS = range(5, 51)
"""Lengths of the sentences whose rank correlations count, as in the paper."""


@dataclass(frozen=True, eq=False)
class Tree:
    """The dependency tree of a sentence.

    Attributes:
        heads: place of the head of each word; -1 of the root.
        depths: edges from the root to each word.
        distances: edges between any two words.
        counted: words that are no punctuation: edges of others are not scored.
    """

    heads: Int64[np.ndarray, " n"]
    depths: Int64[np.ndarray, " n"]
    distances: Int64[np.ndarray, "n n"]
    counted: Bool[np.ndarray, " n"]

    @classmethod
    def of(cls, heads: Sequence[int], counted: Bool[np.ndarray, " n"]) -> "Tree | None":
        """Return the tree of a sentence, given its heads as CoNLL-U numbers them: 0 of the root.

        Returns:
            None where they make no tree: several roots or none, a circle, a head that is not there.
        """
        # heads 2 0 2: places 1 -1 1; the order is 1 0 2, depths are 1 0 1, distances 0 1 2 | 1 0 1
        # | 2 1 0
        n, places = len(heads), np.array(heads) - 1
        if (places == -1).sum() != 1 or places.max() >= n or places.min() < -1:
            return None
        children: dict[int, list[int]] = defaultdict(list)
        for word, head in enumerate(places.tolist()):
            children[head].append(word)
        order = list(children[-1])
        for word in order:  # which grows on the way
            order += children[word]
        if len(order) != n:
            return None
        depths, distances = np.zeros(n, np.int64), np.zeros((n, n), np.int64)
        for count, word in enumerate(order[1:], start=1):
            head, known = places[word], order[:count]
            depths[word] = depths[head] + 1
            distances[word, known] = distances[known, word] = distances[head, known] + 1
        return cls(places, depths, distances, counted)

    @property
    def edges(self) -> set[tuple[int, int]]:
        """The edges between words that count, the smaller place first."""
        pairs = [(head, word) for word, head in enumerate(self.heads.tolist()) if head >= 0]
        counted = self.counted.tolist()
        return {(min(pair), max(pair)) for pair in pairs if all(counted[word] for word in pair)}


def spanning_edges(distances: Squared, counted: Bool[np.ndarray, " n"]) -> set[tuple[int, int]]:
    """Return the minimum spanning tree of the words that count, the smaller place first."""
    from scipy.sparse.csgraph import minimum_spanning_tree  # slow to import

    places = np.flatnonzero(counted)
    # an edge of length 0 is none to scipy: all are raised by the same
    lengths = distances[np.ix_(places, places)].astype(np.float64) + 1.0
    tree = minimum_spanning_tree(np.triu(lengths, 1)).tocoo()
    pairs = zip(places[tree.row].tolist(), places[tree.col].tolist(), strict=True)
    return {(min(pair), max(pair)) for pair in pairs}


def chain_edges(counted: Bool[np.ndarray, " n"]) -> set[tuple[int, int]]:
    """Return the edges between neighbours among the words that count: what needs no model."""
    places = np.flatnonzero(counted).tolist()
    return set(itertools.pairwise(places))


def spearman(a: Shaped[np.ndarray, " n"], b: Shaped[np.ndarray, " n"]) -> float:
    """Return Spearman's rank correlation; NaN where either is constant."""
    x, y = (values.astype(np.float64) for values in (a, b))
    return pearson(ranks(x), ranks(y)) if np.ptp(x) and np.ptp(y) else math.nan


def distance_correlation(tree: Tree, distances: Squared) -> float:
    """Return the mean over words of the rank correlation of distances to all words."""
    return float(
        np.nanmean([spearman(*rows) for rows in zip(tree.distances, distances, strict=True)])
    )


def over_lengths(lengths: Iterable[int], values: Iterable[float]) -> Float64[np.ndarray, " n"]:
    """Return the share of each sentence in the mean over lengths: the mean of each length's mean.

    A sentence whose length is none of `LENGTHS`, or whose value is NaN, has none.

    Args:
        lengths: words of each sentence.
        values: what is averaged.
    """
    sizes = np.array(list(lengths))
    valid = np.isin(sizes, LENGTHS) & ~np.isnan(np.array(list(values)))
    shares = np.zeros(len(sizes))
    kept = np.unique(sizes[valid])
    for size in kept:
        members = valid & (sizes == size)
        shares[members] = 1 / (members.sum() * len(kept))
    return shares
