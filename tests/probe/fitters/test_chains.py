"""Chains solved against a reference in float64: scipy over a plain forward recursion."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.autograd.functional import jacobian

from probekit.probe.fitters.linear_problems import TRANSITIONS
from probekit.probe.fitters.losses import ChainLoss
from tests.probe.fitters.cases import rows_of, solved


def sentences(n=120, dim=6, n_tags=3, seed=0):
    """Return rows, tags that follow each other in a pattern, and bounds of sentences."""
    x, _ = rows_of(n, dim, n_tags, seed=seed, offset=0.0)
    rng = np.random.default_rng(seed)
    tags = np.zeros(n, int)
    for row in range(1, n):
        tags[row] = (tags[row - 1] + (rng.random() < 0.7)) % n_tags
    x[:, 0] += torch.from_numpy(tags).float()
    cuts = np.sort(rng.choice(np.arange(1, n), 20, replace=False))
    return x, torch.from_numpy(tags), torch.from_numpy(np.array([0, *cuts, cuts[-1], n]))


def reference(parameters, z, y, bounds, l2, n_tags):
    """Return the objective in float64, sentence by sentence and word by word."""
    width = z.shape[1] + 1
    sizes = [n_tags * width, n_tags * n_tags, n_tags, n_tags]
    weights, transitions, start, end = torch.split(parameters, sizes)
    weights, transitions = weights.view(n_tags, width), transitions.view(n_tags, n_tags)
    emissions = z @ weights[:, :-1].t() + weights[:, -1]
    total = torch.zeros((), dtype=torch.float64)
    for a, b in itertools.pairwise(bounds):
        if a == b:
            continue
        alpha = start + emissions[a]
        gold = start[y[a]] + emissions[a, y[a]] + end[y[b - 1]]
        for row in range(a + 1, b):
            alpha = (alpha.unsqueeze(1) + transitions).logsumexp(0) + emissions[row]
            gold = gold + transitions[y[row - 1], y[row]] + emissions[row, y[row]]
        total = total + (alpha + end).logsumexp(0) - gold
    beside = sum(part.square().sum() for part in (transitions, start, end))
    own = l2 / 2 * weights[:, :-1].square().sum() + TRANSITIONS / 2 * beside
    return total / len(y) + own


def test_the_optimum_is_that_of_the_reference(l2=0.01):
    x, y, bounds = sentences()
    loss = ChainLoss(y, 3, bounds)
    basis, _objective, minimum = solved(x, loss, strengths=(l2,), blocks=1, extra_l2=TRANSITIONS)
    z = basis.apply(x).double()
    ends = bounds.tolist()

    def value(parameters):
        return float(reference(torch.from_numpy(parameters), z, y, ends, l2, 3))

    def slope(parameters):
        point = torch.from_numpy(parameters)
        return jacobian(lambda p: reference(p, z, y, ends, l2, 3), point).numpy()

    assert minimum.converged.all()
    assert value(minimum.points[0].numpy()) == pytest.approx(float(minimum.value[0]), rel=1e-6)
    # the objective is convex: from the optimum nothing leads down
    start = minimum.points[0].numpy()
    judge = minimize(value, start, jac=slope, method="L-BFGS-B", options={"ftol": 1e-12})
    assert float(minimum.value[0]) == pytest.approx(judge.fun, rel=1e-6)
