"""Structural probes: trees and scores against scipy, planted trees."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import shortest_path
from scipy.stats import spearmanr

from probekit.measures.structural import _edge_counts, _fit, _predicted, _Split
from probekit.measures.trees import Tree, chain_edges, over_lengths, spanning_edges, spearman
from probekit.results.comparison.resampling import Groups

CPU = torch.device("cpu")


def draw(rng, n):
    """The heads of a random tree, as CoNLL-U numbers them."""
    order, heads = rng.permutation(n), np.zeros(n, int)
    for place in range(1, n):
        heads[order[place]] = order[rng.integers(place)] + 1
    return heads.tolist()


def test_trees_are_those_of_scipy():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 12, 30):
        heads = draw(rng, n)
        tree = Tree.of(heads, np.ones(n, bool))
        graph = np.zeros((n, n))
        for word, head in enumerate(heads):
            if head:
                graph[word, head - 1] = 1
        distances = shortest_path(graph, directed=False, unweighted=True)
        assert np.array_equal(tree.distances, distances)
        assert np.array_equal(tree.depths, distances[heads.index(0)])
        assert len(tree.edges) == n - 1
        assert spanning_edges(tree.distances, tree.counted) == tree.edges


@pytest.mark.parametrize("heads", [[0, 0], [2, 1], [1, 0], [0, 3], [0, 3, 2], [0, -1]])
def test_what_is_no_tree_is_none(heads):
    assert Tree.of(heads, np.ones(len(heads), bool)) is None


def test_spanning_trees_are_those_of_kruskal():
    rng = np.random.default_rng(1)
    for n in (2, 6, 15):
        lengths = rng.random((n, n))
        lengths = lengths + lengths.T
        lengths[0, 1] = lengths[1, 0] = 0.0  # no edge to scipy
        counted = np.ones(n, bool)
        counted[n // 2] = n < 3
        places = np.flatnonzero(counted).tolist()
        part, chosen = {place: {place} for place in places}, set()
        for a, b in sorted(itertools.combinations(places, 2), key=lambda pair: lengths[pair]):
            if part[a] is not part[b]:
                chosen.add((a, b))
                joined = part[a] | part[b]
                part |= dict.fromkeys(joined, joined)
        assert spanning_edges(lengths, counted) == chosen


def test_punctuation_is_left_out():
    tree = Tree.of([2, 0, 2, 3], np.array([True, True, False, True]))
    assert tree.edges == {(0, 1)}
    assert chain_edges(tree.counted) == {(0, 1), (1, 3)}


def test_correlations_are_those_of_scipy():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 4, 20), rng.normal(size=20)
    assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert math.isnan(spearman(np.ones(3), b[:3]))
    lengths, values = [4, 5, 5, 6, 51], np.array([9.0, 0.2, 0.4, 0.6, 9.0])
    assert values @ over_lengths(lengths, values) == pytest.approx((0.3 + 0.6) / 2)
    assert over_lengths([5, 6], [math.nan, 1.0]).tolist() == [0, 1]


def planted(seed, noise, count=60, words=9, dim=24):
    """Rows whose squared distances are those of the tree: a direction for each word above."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(9).normal(size=(dim, dim)))[0][:words]
    trees, rows, places = [], [], []
    for _ in range(count):
        n = int(rng.integers(5, words + 1))
        tree = Tree.of(draw(rng, n), np.ones(n, bool))
        above = np.eye(n)
        for word in np.argsort(tree.depths, kind="stable")[1:]:
            above[word] += above[tree.heads[word]]
        own = above @ turn[:n]
        places.append(np.arange(n) + sum(map(len, rows)))
        rows.append(own * (not noise) + rng.normal(size=own.shape) * (1.0 if noise else 0.01))
        trees.append(tree)
    part = _Split(None, trees, places, Groups(count), 0)
    return part, np.concatenate(rows).astype(np.float32)


@pytest.mark.parametrize("noise", [False, True])
def test_a_planted_tree_is_found_and_noise_is_not(noise):
    made = {name: planted(seed, noise) for seed, name in enumerate(("train", "dev", "test"))}
    splits, rows = ({name: pair[n] for name, pair in made.items()} for n in (0, 1))
    weight, converged = _fit("distance", splits, rows, 16, 200, 0, CPU)
    assert converged
    right, total = np.sum(
        [pair[:2] for pair in _edge_counts(splits["test"], rows["test"], weight)], 0
    )
    assert (right / total > 0.97) != noise
    assert right / total < 0.6 or not noise
    deep, _ = _fit("depth", splits, rows, 16, 200, 0, CPU)
    test = splits["test"]
    depths = [
        _predicted("depth", torch.from_numpy(rows["test"][places]), deep).numpy()
        for places in test.rows
    ]
    found = [spearman(tree.depths, own) for tree, own in zip(test.trees, depths, strict=True)]
    assert (np.mean(found) > 0.9) != noise


def test_predicted_distances_are_those_by_hand():
    rng = np.random.default_rng(3)
    states, weight = (torch.from_numpy(rng.normal(size=s).astype("f4")) for s in ((4, 6), (3, 6)))
    mapped = states @ weight.T
    expected = (mapped[:, None] - mapped[None]).square().sum(-1)
    assert torch.allclose(_predicted("distance", states, weight), expected, atol=1e-5)
    assert torch.allclose(_predicted("depth", states, weight), mapped.square().sum(-1))
