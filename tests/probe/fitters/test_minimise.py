"""L-BFGS over many problems side by side, against scipy and against problems alone."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, rosen, rosen_der

from probekit.probe.fitters.minimise import Descent, Evaluation, Preconditioner
from tests.probe.fitters.cases import run_alone


class Plain(Preconditioner):
    """The identity for an inverse Hessian."""

    def update(self, which, points, found):
        pass

    def reset(self, which):
        pass

    def sharpen(self, which, found):
        raise AssertionError("nothing was asked for")

    def apply(self, which, gradient):
        return gradient


def run(function, start, waits=(), last=(), **options):
    """Minimise ``function(which, points) -> values`` by autograd.

    Args:
        waits: which problems go on and how much looser they wait, time after time.
        last: which go on to the end; all that there are unless some wait.
    """
    asked = []

    def evaluate(request):
        asked.append(request.which.tolist())
        points = request.points.clone().requires_grad_()
        values = function(request.which, points)
        (gradient,) = torch.autograd.grad(values.sum(), points)
        return Evaluation(values.detach(), gradient)

    descent = Descent(start, Plain(), **options)
    for which, looser in waits:
        run_alone(descent.go_on(which, looser=looser), evaluate)
    return run_alone(descent.go_on(torch.tensor([*last], dtype=torch.int64)), evaluate), asked


def quadratics(which, points):
    scales = torch.tensor([[1.0, 10.0, 100.0], [1.0, 1.0, 1.0], [1e-2, 1.0, 1e3]]).double()
    centres = torch.tensor([[1.0, -2.0, 3.0], [0.0, 0.0, 0.0], [5.0, 5.0, 5.0]]).double()
    return (scales[which] * (points - centres[which]).square()).sum(1) + 1


def test_each_problem_finds_its_own_minimum():
    found, asked = run(quadratics, torch.zeros(3, 3).double(), tolerance=1e-14)
    assert asked[0] == [0, 1, 2] and all(1 not in which for which in asked[1:])
    expected = [[1, -2, 3], [0, 0, 0], [5, 5, 5]]
    assert found.converged.all()
    np.testing.assert_allclose(found.points.numpy(), expected, atol=1e-5)
    assert found.iterations[1] == 0, "it began where it ended"


def test_a_problem_does_not_depend_on_those_beside_it():
    start = torch.zeros(3, 3).double()
    together, _ = run(quadratics, start)
    for one in range(3):
        alone, _ = run(lambda which, points, one=one: quadratics(which + one, points), start[:1])
        assert torch.equal(alone.points[0], together.points[one])


def rosenbrocks(which, points):
    x, y = points[:, :-1], points[:, 1:]
    return (100 * (y - x.square()).square() + (1 - x).square()).sum(1) + 1


def test_those_that_wait_go_on_as_if_they_had_not():
    start = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)).double()
    whole, _ = run(rosenbrocks, start)
    waits = [(None, 1e8), (torch.tensor([0, 2, 3]), 1e4), (torch.tensor([0, 3]), 1e4)]
    found, _ = run(rosenbrocks, start, waits, last=[3])
    assert torch.equal(found.points[3], whole.points[3]) and found.converged[3]
    left = found.gradient[:3] / found.tolerance[:3]
    assert not found.converged[:3].any() and (left > 1).all(), "they are where they waited"
    assert (left[[0, 2]] <= 1e2).all() and left[1] <= 1e4
    found, _ = run(rosenbrocks, start, waits, last=range(4))
    assert torch.equal(found.points, whole.points) and found.converged.all()
    assert torch.equal(found.iterations, whole.iterations) and (found.iterations > 5).all()


def test_rosenbrock_as_scipy_finds_it():
    start = torch.tensor([[-1.2, 1.0, -1.2, 1.0], [0.0, 0.0, 0.0, 0.0]]).double()
    found, _ = run(rosenbrocks, start, tolerance=1e-14)
    for point, begin in zip(found.points.numpy(), start.numpy(), strict=True):
        judge = minimize(rosen, begin, jac=rosen_der, method="L-BFGS-B", tol=1e-14)
        np.testing.assert_allclose(point, judge.x, atol=1e-4)
    assert found.converged.all()


def test_too_few_iterations_are_said():
    found, _ = run(quadratics, torch.full((3, 3), 50.0).double(), most=2)
    assert not found.converged[0] and found.gradient[0] > found.tolerance[0]
    assert found.iterations.tolist()[0] == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_step_into_nothing_is_taken_back(bad):
    def function(which, points):
        value = (points - 3).square().sum(1)
        return torch.where(points[:, 0] > 3.5, torch.full_like(value, bad), value)

    found, _ = run(function, torch.tensor([[-40.0]]).double())
    np.testing.assert_allclose(found.points.numpy(), [[3.0]], atol=1e-3)
