"""Fits by samples of the rows end where fits by all rows do, whatever the sample."""

import itertools

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from probekit.fitters.linear import LinearObjective, Problems, solve
from probekit.fitters.losses import Binary, Softmax, Squares
from probekit.fitters.minimise import Request
from probekit.fitters.sampled import SampledObjective, answer, sample_size
from tests.fitters.cases import basis_of, rows_of

N, DIM, BOUNDS = 4_000, 12, (0, 1_500, 1_501, 4_000)
STRENGTHS = (1.0, 1e-2, 1e-4, 1e-6)


def made(n_classes, parts=None):
    """Return rows in blocks, their targets, and the objective of all strengths."""
    x, y = rows_of(N, DIM, n_classes)
    basis = basis_of(x)
    z = basis.apply(x)
    loss = {1: Squares, 2: Binary}.get(n_classes, lambda t: Softmax(t, n_classes))(
        y.double() if n_classes == 1 else y
    )
    problems = Problems.of(STRENGTHS, torch.ones(1, N) if parts is None else parts)
    blocks = [(slice(a, b), z[a:b]) for a, b in itertools.pairwise(BOUNDS)]
    return blocks, y, LinearObjective(loss, problems, basis.spectrum)


def both(n_classes, size, parts=None):
    """Return the minima by all rows and by samples, some of which were asked for samples."""
    blocks, _, objective = made(n_classes, parts)
    exact = solve(objective.minimise(), lambda request: objective.evaluate(request, blocks))
    sampled, kinds = SampledObjective(objective, size), []

    def evaluate(request):
        found = answer(sampled.evaluate(request), blocks)
        kinds.append(found.exact)
        return found

    found = solve(objective.minimise(), evaluate)
    assert {True, False} == set(kinds)
    return exact, found


@pytest.mark.parametrize("size", [15, 60, 400])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_minimum_is_that_of_all_rows(n_classes, size):
    exact, found = both(n_classes, size)
    assert exact.converged.all() and found.converged.all()
    np.testing.assert_allclose(found.value, exact.value, rtol=1e-6)


def test_parts_of_the_rows_are_sampled_together():
    parts = torch.ones(3, N)
    parts[1, ::3] = 0
    parts[2, : N // 2] = 0
    exact, found = both(4, 400, parts)
    assert found.converged.all()
    np.testing.assert_allclose(found.value, exact.value, rtol=1e-6)


def test_predictions_are_scikit_learns():
    blocks, y, objective = made(5)
    sampled = SampledObjective(objective, 400)
    found = solve(
        objective.minimise(),
        lambda request: answer(sampled.evaluate(request), blocks),
    )
    z = torch.cat([block for _, block in blocks])
    ours = objective.predict(found.points, z, torch.tensor([0, N])).numpy()
    for own, l2 in zip(ours, STRENGTHS, strict=True):
        judge = LogisticRegression(C=1 / (N * l2), tol=1e-8, max_iter=20_000)
        expected = judge.fit(z.double().numpy(), y.numpy()).predict(z.double().numpy())
        assert (own != expected).sum() <= 2


@pytest.mark.parametrize("n_classes", [1, 2, 5])
def test_a_sample_is_exact_where_it_was_drawn_and_right_on_average_elsewhere(n_classes):
    blocks, _, objective = made(n_classes)
    which = torch.arange(len(STRENGTHS))
    width = objective.loss.n_logits * (DIM + 1)
    here, there = 0.3 * torch.randn(2, len(which), width, dtype=torch.float64)
    exact = [objective.evaluate(Request(which, points), blocks) for points in (here, there)]
    sampled = SampledObjective(objective, 200)
    values, gradients = [], []
    for _ in range(40):
        answer(sampled.evaluate(Request(which, here, exact=True)), blocks)
        again = answer(sampled.evaluate(Request(which, here)), blocks)
        assert not again.exact
        np.testing.assert_allclose(again.value, exact[0].value, rtol=1e-9)
        np.testing.assert_allclose(again.gradient, exact[0].gradient, atol=1e-9)
        away = answer(sampled.evaluate(Request(which[1:], there[1:])), blocks)
        values.append(away.value.numpy())
        gradients.append(away.gradient.numpy())
    for found, expected in ((values, exact[1].value), (gradients, exact[1].gradient)):
        mean, error = np.mean(found, 0), np.std(found, 0, ddof=1) / np.sqrt(len(found))
        assert (np.abs(mean - expected[1:].numpy()) <= 5 * error + 1e-9).all()
        assert (error > 0).any()


def test_few_rows_are_not_sampled():
    assert sample_size(10_000, 768) is None
    assert sample_size(9_000, 10) is None
    assert sample_size(20_000, 768) == 4_608
    assert sample_size(200_000, 768) == 20_000
