"""Mixtures of layers solved with their decoder: derivatives, vertices, projected gradients."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from probekit.probe.fitters.linear_problems import Problems
from probekit.probe.fitters.losses import Softmax
from probekit.probe.fitters.minimise import Request
from probekit.probe.fitters.mixtures import (
    BatchDescent,
    MixtureObjective,
    RowMixture,
    SharedMixture,
    onto_simplex,
)
from tests.probe.fitters.cases import run_alone


def layers_of(n=120, n_layers=4, dim=8, signal=2, seed=0):
    """Return rows of several layers, one of which shows the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    z = rng.normal(0, 1, (n_layers, n, dim))
    z[signal] += 2 * rng.normal(0, 1, (3, dim))[y]
    return torch.from_numpy(z).float(), torch.from_numpy(y)


def mixture_of(kind, z):
    return SharedMixture(len(z)) if kind == "shared" else RowMixture(z.double().mean(1))


def objective_of(kind, z, y, strengths=(0.1, 0.01)):
    problems = Problems.of(strengths, torch.ones(1, len(y)))
    spectrum = torch.ones(z.shape[2]).double()
    return MixtureObjective(Softmax(y, 3), mixture_of(kind, z), problems, spectrum, extra_l2=0.0)


@pytest.mark.parametrize("kind", ["shared", "row"])
def test_derivatives_are_autograds(kind):
    z, y = layers_of()
    objective = objective_of(kind, z, y)
    generator = torch.Generator().manual_seed(1)
    n_values = objective.mixture.n_values
    points = objective.start(torch.randn(2, n_values, generator=generator).double())
    points += 0.3 * torch.randn(points.shape, generator=generator).double()
    found = objective.begin(Request(torch.arange(2), points))
    found.add(slice(0, 50), z[:, :50])
    found.add(slice(50, len(y)), z[:, 50:])
    evaluation = found.finish()
    for problem, l2 in enumerate((0.1, 0.01)):
        leaf = points[problem].clone().requires_grad_()
        weights, bias, _, mixture = (one[0] for one in objective.unpack(leaf.unsqueeze(0)))
        rows = z.double()
        if kind == "shared":
            h = (mixture.softmax(0).view(-1, 1, 1) * rows).sum(0)
        else:
            h = ((rows @ mixture).softmax(0).unsqueeze(2) * rows).sum(0)
        value = functional.cross_entropy(h @ weights.t() + bias, y)
        value = value + l2 / 2 * weights.square().sum()
        value = value + (l2 / 2 * mixture.square().sum() if kind == "row" else 0)
        value.backward()
        assert float(evaluation.value[problem]) == pytest.approx(float(value.detach()), rel=1e-5)
        np.testing.assert_allclose(evaluation.gradient[problem], leaf.grad, atol=2e-6)


def fit(kind, z, y, start, strengths=(0.01,)):
    objective = objective_of(kind, z, y, strengths)
    mixtures = start.expand(len(strengths), -1)

    def evaluate(request):
        found = objective.begin(request)
        found.add(slice(0, len(y)), z)
        return found.finish()

    minimisation = objective.minimise(objective.start(mixtures), most=500, tolerance=1e-8)
    return objective, run_alone(minimisation, evaluate)


def test_a_shared_mixture_runs_to_the_layer_that_knows():
    z, y = layers_of()
    objective, minimum = fit("shared", z, y, SharedMixture(4).even())
    mixture = objective.unpack(minimum.points)[3]
    weights = mixture.softmax(1)[0]
    assert minimum.converged.all()
    assert weights.argmax() == 2 and weights[2] > 0.9


def test_a_vertex_is_an_optimum_only_where_no_other_layer_helps():
    mixture = SharedMixture(3)
    at_first = torch.tensor([[40.0, 0.0, 0.0]]).double()
    weights = at_first.softmax(1)
    for by_weights, optimal in (([0.0, 1.0, 1.0], True), ([1.0, 0.0, 1.0], False)):
        slope = torch.tensor([by_weights]).double()
        gradient = weights * (slope - (weights * slope).sum(1, keepdim=True))
        assert gradient.abs().max() < 1e-15, "the softmax's own gradient sees no difference"
        residual = mixture.residual(at_first, gradient)
        assert bool(residual < 1e-3) is optimal


@pytest.mark.parametrize("n_layers", [1, 5])
def test_starts_lie_near_a_vertex_or_at_it(n_layers):
    mixture = SharedMixture(n_layers)
    assert mixture.even().softmax(0).tolist() == pytest.approx([1 / n_layers] * n_layers)
    for place in range(n_layers):
        near, alone = mixture.near(place).softmax(0), mixture.alone(place).float().softmax(0)
        assert near.argmax() == alone.argmax() == place
        assert float(near.max()) == pytest.approx(0.9 if n_layers > 1 else 1.0)
        assert float(alone.max()) == 1.0, "float32 sees no other layer"


def test_queries_start_near_layers_whose_means_differ_and_nowhere_else():
    means = 3 * torch.eye(3, 8).double()
    mixture = RowMixture(means)
    assert not mixture.even().any() and mixture.alone(0) is None
    for layer in range(3):
        assert (means @ mixture.near(layer)).softmax(0).argmax() == layer
        assert RowMixture(1e-6 * means).near(layer) is None
    assert RowMixture(means[:1]).near(0) is None


def test_training_by_steps_goes_where_autograd_and_adam_go():
    z, y = layers_of()
    objective = objective_of("row", z, y, [0.0])
    generator = torch.Generator().manual_seed(1)
    start = objective.start(torch.zeros(1, objective.mixture.n_values).double())
    # No derivative is near 0 here: Adam would divide the rounding of one by itself.
    start += 0.3 * torch.randn(start.shape, generator=generator).double()
    descent = BatchDescent(objective, start, [1e-2, 0.1, 1e-2], 6)
    n_logits, dim = objective.loss.n_logits, z.shape[2]
    values = start[0].clone().requires_grad_()
    adam = torch.optim.Adam([values], lr=1e-2)
    for step in range(6):
        rows = slice(20 * step, 20 * step + 20)
        descent.step(rows, z[:, rows])
        read = z[:, rows].double()
        matrix, query = values[: n_logits * (dim + 1)].view(n_logits, dim + 1), values[-dim:]
        h = ((read @ query).softmax(0).unsqueeze(2) * read).sum(0)
        adam.param_groups[0]["lr"] = 1e-2 * (1 - step / 6)
        adam.zero_grad()
        functional.cross_entropy(h @ matrix[:, :-1].t() + matrix[:, -1], y[rows]).backward()
        adam.step()
    assert descent.over
    np.testing.assert_allclose(descent.points[0], values.detach(), atol=1e-7)


def test_points_on_the_simplex_stay_and_others_go_to_the_nearest():
    points = torch.tensor([[0.2, 0.3, 0.5], [2.0, 0.0, 0.0], [-1.0, 0.4, 0.6], [1.0, 1.0, 1.0]])
    expected = [[0.2, 0.3, 0.5], [1, 0, 0], [0, 0.4, 0.6], [1 / 3] * 3]
    np.testing.assert_allclose(onto_simplex(points.double()), expected, atol=1e-7)
