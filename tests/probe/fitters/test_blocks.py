"""Blocks of the Hessian: what they are, whom they serve, and that they change no minimum."""

import numpy as np
import pytest
import torch
from torch.autograd.functional import hessian

from probekit.probe.fitters.linear_problems import LinearObjective, Problems
from probekit.probe.fitters.losses import Binary, ChainLoss, Softmax
from probekit.probe.fitters.minimise import Evaluation, Request
from probekit.probe.fitters.preconditioner import BlockInverse, KroneckerInverse
from tests.probe.fitters.cases import basis_of, evaluated, rows_of, solved


def at(loss, z, spectrum, *, drawn=None):
    """Return the evaluation with blocks at a random point of one problem without L2."""
    problems = Problems.of((0.0,), torch.ones(1, len(z)))
    objective = LinearObjective(loss, problems, spectrum)
    width = z.shape[1] + 1
    points = torch.randn(
        1, loss.n_logits * width + loss.n_extra, generator=torch.Generator().manual_seed(1)
    )
    rows, which = [(slice(0, len(z)), z)], torch.zeros(1, dtype=torch.int64)
    first = evaluated(objective, Request(which, points.double()), rows).curvature
    total = first.diagonal(0, 1, 2) if drawn is None else drawn.double()
    return points.double(), evaluated(objective, Request(which, points.double(), total), rows)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_blocks_are_those_of_the_hessian(n_classes):
    x, y = rows_of(60, 5, n_classes)
    basis = basis_of(x)
    z = basis.apply(x)
    loss = Binary(y) if n_classes == 2 else Softmax(y, n_classes)
    points, found = at(loss, z, basis.spectrum, drawn=torch.full((1, loss.n_logits), 1e-9))

    def value(flat):
        weights = flat.view(loss.n_logits, -1)
        logits = z.double() @ weights[:, :-1].t() + weights[:, -1]
        if n_classes == 2:
            logits = torch.cat([torch.zeros_like(logits), logits], 1)
        return torch.nn.functional.cross_entropy(logits, y)

    whole = hessian(value, points[0]).view(loss.n_logits, 6, loss.n_logits, 6)
    own = whole.diagonal(0, 0, 2).permute(2, 0, 1)
    np.testing.assert_allclose(found.blocks[0], own, rtol=1e-4, atol=1e-7)


def test_a_chains_blocks_are_by_the_marginals_of_its_tags():
    x, y = rows_of(60, 5, 3)
    basis = basis_of(x)
    loss = ChainLoss(y, 3, torch.tensor([0, 10, 30, 60]))
    _, found = at(loss, basis.apply(x), basis.spectrum, drawn=torch.full((1, 3), 1e-9))
    curvature = found.curvature.diagonal(0, 1, 2)  # the bias's second derivatives
    np.testing.assert_allclose(found.blocks[:, :, -1, -1], curvature, rtol=1e-4)


def test_rows_that_are_drawn_give_the_blocks_on_average(monkeypatch):
    monkeypatch.setattr("probekit.probe.fitters.linear_problems._DRAWN", 2000)
    x, y = rows_of(20_000, 3, 3)
    basis = basis_of(x)
    z = basis.apply(x)
    _, exact = at(Softmax(y, 3), z, basis.spectrum, drawn=torch.full((1, 3), 1e-9))
    _, drawn = at(Softmax(y, 3), z, basis.spectrum)
    scale = exact.blocks.diagonal(0, 2, 3).sqrt()
    error = (drawn.blocks - exact.blocks) / (scale.unsqueeze(3) * scale.unsqueeze(2))
    assert 1e-3 < error.abs().max() < 0.08, "about one over the root of the 8,000 drawn"
    assert error.diagonal(0, 2, 3).mean().abs() < 0.02


def rare_columns(n_classes, n=4_000):
    """Return rows like those of words' embeddings: most columns tell of few rows."""
    rng = np.random.default_rng(0)
    present = rng.random((n, 120)) < 0.3 * np.arange(1, 121) ** -0.8
    logits = present @ rng.normal(0, 4, (120, n_classes)) + rng.gumbel(0, 1, (n, n_classes))
    return torch.from_numpy(present).float(), torch.from_numpy(logits.argmax(1))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_minimum_is_no_higher_and_found_sooner(n_classes, monkeypatch):
    x, y = rare_columns(n_classes)
    loss = Binary(y) if n_classes == 2 else Softmax(y, n_classes)
    strengths = (1e-2, 1e-4, 1e-5)
    _, _, sharp = solved(x, loss, strengths)
    monkeypatch.setattr("probekit.probe.fitters.linear_problems.BlockInverse", KroneckerInverse)
    _, _, plain = solved(x, loss, strengths)
    assert sharp.converged.all() and plain.converged.all()
    np.testing.assert_allclose(sharp.value, plain.value, rtol=1e-6)
    assert (sharp.value <= plain.value * (1 + 1e-7)).all()
    assert sharp.iterations[0] == plain.iterations[0], "quick ones have no blocks"
    if n_classes == 4:
        assert sharp.iterations[2] < plain.iterations[2] / 1.5


def test_a_class_that_a_part_of_the_rows_lacks_takes_no_longer():
    x, y = rare_columns(4, n=3_000)
    y = torch.where(y == 3, 0, y)
    y[11] = 3
    parts = torch.ones(1, len(y))
    parts[0, 11] = 0
    _, _, lacking = solved(x, Softmax(y, 4), (1e-6, 3e-6, 1e-5), parts=parts)
    assert lacking.converged.all()
    assert lacking.iterations.max() < 200


def inverse_of(l2, n_logits=2, width=4):
    inverse = BlockInverse(torch.ones(width, dtype=torch.float64), l2, n_logits)
    which, points = torch.arange(len(l2)), torch.zeros(len(l2), n_logits * (width + 1)).double()
    curvature = torch.eye(n_logits).double().expand(len(l2), -1, -1)
    return inverse, which, points, Evaluation(points[:, 0], points, curvature)


def sharpen(inverse, which, found, blocks=None):
    """Hand over blocks: of 2 logits and 4 columns with a bias, the identity unless given."""
    blocks = torch.eye(5).expand(len(which), 2, -1, -1).clone() if blocks is None else blocks
    there = found.take(which)
    inverse.sharpen(which, Evaluation(there.value, there.gradient, blocks=blocks))


def test_blocks_are_for_problems_that_take_long_and_again_three_times_later(monkeypatch):
    monkeypatch.setattr("probekit.probe.fitters.preconditioner._FIRST", 4)
    inverse, which, points, found = inverse_of(torch.tensor([1.0, 0.1], dtype=torch.float64))
    asked = []
    for step in range(1, 40):
        inverse.update(which, points, found)
        request = inverse.wanted(which, points)
        if request is not None:
            asked.append(step)
            sharpen(inverse, request.which, found)
    assert asked == [4, 12, 36]


def test_where_there_is_little_room_the_weakest_strengths_come_first(monkeypatch):
    monkeypatch.setattr("probekit.probe.fitters.preconditioner._FIRST", 1)
    monkeypatch.setattr("probekit.probe.fitters.preconditioner._ROOM", 2 * 25)
    l2 = torch.tensor([1.0, 0.01, 0.1], dtype=torch.float64)
    inverse, which, points, found = inverse_of(l2)
    served = []
    for going in (which, which[[0, 2]], which[:1]):
        inverse.update(going, points[going], found.take(going))
        request = inverse.wanted(going, points[going])
        served.append(request.which.tolist())
        sharpen(inverse, request.which, found)
    assert served == [[1], [2], [0]]


def test_blocks_that_cannot_be_inverted_are_taken_for_their_diagonals():
    inverse, which, points, found = inverse_of(torch.tensor([0.5], dtype=torch.float64))
    inverse.update(which, points, found)
    blocks = torch.eye(5).expand(1, 2, -1, -1).clone()
    blocks[0, 0, 0, 1] = blocks[0, 0, 1, 0] = 9.0
    blocks[0, 1] = torch.diag(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    sharpen(inverse, which, found, blocks)
    gradient = torch.zeros(1, 2, 5, dtype=torch.float64)
    gradient[0, 0], gradient[0, 1] = 1.0, -1.0
    out = inverse.apply(which, gradient.flatten(1)).view(2, 5)
    want = torch.tensor([1 / 1.5, 1 / 1.5, 1 / 1.5, 1 / 1.5, 1.0])
    other = torch.tensor([1 / 1.5, 1 / 2.5, 1 / 3.5, 1 / 4.5, 1 / 5])
    np.testing.assert_allclose(out[0] - out[1], want + other, rtol=1e-3)


def test_what_all_logits_have_in_common_is_held_by_l2_alone():
    inverse, which, points, found = inverse_of(torch.tensor([0.5], dtype=torch.float64))
    inverse.update(which, points, found)
    sharpen(inverse, which, found)
    out = inverse.apply(which, torch.ones(1, 10, dtype=torch.float64)).view(2, 5)
    np.testing.assert_allclose(out, [[2.0, 2.0, 2.0, 2.0, 0.0]] * 2)
