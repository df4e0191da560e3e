"""Rows and targets for the tests of fitters, and how their problems are solved."""

import itertools

import numpy as np
import torch

from probekit.probe.fitters.linear_problems import LinearObjective, Problems
from probekit.probe.fitters.preconditioner import BasisBuilder, Scale

STRENGTHS = tuple(10.0**decade for decade in (1, 0.25, -0.5, -1.25, -2, -2.75, -3.5, -4.25))


def rows_of(n, dim, n_classes, seed=0, offset=3.0):
    """Return rows of falling variance with a mean, and classes that depend on them."""
    rng = np.random.default_rng(seed)
    scales = np.arange(1, dim + 1) ** -0.7
    x = rng.normal(0, 1, (n, dim)) * scales @ rng.normal(0, 1, (dim, dim)) + offset
    z = (x - x.mean(0)) / x.std(0)
    logits = z @ rng.normal(0, 1, (dim, n_classes)) + rng.normal(0, 3, (n, n_classes))
    y = (logits + 3 * np.arange(n_classes)).argmax(1)  # classes of very different shares
    return torch.from_numpy(x).float(), torch.from_numpy(y)


def basis_of(x):
    """Return the basis of rows."""
    scale = Scale.of(x.double().mean(0), x.double().std(0, correction=0))
    builder = BasisBuilder(scale, len(x))
    if builder.reads:
        builder.add(x)
    return builder.finish()


def evaluated(objective, request, blocks):
    """Return the evaluation over all rows, given in blocks."""
    found = objective.begin(request)
    for rows, z in blocks:
        found.add(rows, z)
    return found.finish()


def solved(x, loss, strengths=STRENGTHS, parts=None, blocks=3, **options):
    """Return basis, objective and minimum, the rows given in several blocks."""
    basis = basis_of(x)
    z = basis.apply(x)
    parts = torch.ones(1, len(x)) if parts is None else parts
    objective = LinearObjective(loss, Problems.of(strengths, parts), basis.spectrum, **options)
    bounds = np.linspace(0, len(x), blocks + 1).astype(int)
    pieces = [(slice(a, b), z[a:b]) for a, b in itertools.pairwise(bounds)]
    minimum = run_alone(
        objective.descent().go_on(), lambda request: evaluated(objective, request, pieces)
    )
    return basis, objective, minimum


def run_alone(minimisation, evaluate):
    """Run a minimisation to its end, by itself."""
    try:
        request = next(minimisation)
        while True:
            request = minimisation.send(evaluate(request))
    except StopIteration as end:
        return end.value


def raw(basis, objective, minimum, place):
    """Return weight and bias of rows as they came, in float64."""
    weight, bias, _ = objective.unpack(minimum.points[place : place + 1])
    weight, bias = basis.folded(weight[0], bias[0])
    return weight.numpy(), bias.numpy()
