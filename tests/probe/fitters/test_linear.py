"""Linear layers and chains solved, against scikit-learn and SciPy on the same rows."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression, Ridge
from torch.autograd.functional import jacobian

from probekit.probe.fitters.linear_problems import TRANSITIONS, Problems, RidgeSums
from probekit.probe.fitters.losses import Binary, ChainLoss, Softmax, Squares
from tests.probe.fitters.cases import STRENGTHS, basis_of, raw, rows_of, solved


def standardised(x):
    x = x.double().numpy()
    deviation = x.std(0)
    return (x - x.mean(0)) / np.where(deviation > 0, deviation, 1)


def cross_entropy(logits, y):
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], 1)
    return (logsumexp(logits, 1) - logits[np.arange(len(y)), y]).mean()


def judge(x, y, l2):
    """Return scikit-learn's objective and logits at a strength."""
    z = standardised(x)
    model = LogisticRegression(C=1 / (len(x) * l2), tol=1e-10, max_iter=50_000).fit(z, y)
    logits = z @ model.coef_.T + model.intercept_
    return cross_entropy(logits, y) + l2 / 2 * np.square(model.coef_).sum(), logits


@pytest.mark.parametrize(("n", "dim", "n_classes"), [(300, 20, 2), (400, 12, 5), (40, 60, 3)])
def test_as_scikit_learn_at_every_strength(n, dim, n_classes):
    x, y = rows_of(n, dim, n_classes)
    loss = Binary(y) if n_classes == 2 else Softmax(y, n_classes)
    basis, objective, minimum = solved(x, loss)
    assert minimum.converged.all()
    predicted = objective.predict(minimum.points, basis.apply(x), torch.tensor([0, n]))
    for place, l2 in enumerate(STRENGTHS):
        value, logits = judge(x, y.numpy(), l2)
        assert float(minimum.value[place]) == pytest.approx(value, rel=1e-6)
        weight, bias = raw(basis, objective, minimum, place)
        ours = x.double().numpy() @ weight.T + bias
        both = [np.concatenate([np.zeros_like(a), a], 1) if n_classes == 2 else a
                for a in (ours, logits)]  # fmt: skip
        top = np.sort(both[1], 1)
        sure = top[:, -1] - top[:, -2] > 1e-3
        assert (both[0].argmax(1) == both[1].argmax(1))[sure].all()
        assert (predicted[place].numpy() == both[1].argmax(1))[sure].all()
        assert sure.mean() > 0.9


def test_parts_of_the_rows_are_fits_of_those_rows_alone():
    x, y = rows_of(300, 10, 3)
    seen = torch.ones(3, 300)
    seen[1, ::3] = 0
    seen[2, :100] = 0
    basis, _, minimum = solved(x, Softmax(y, 3), strengths=(0.1, 0.01), parts=seen)
    z = basis.apply(x).double().numpy()
    for part in range(3):
        chosen = seen[part].bool().numpy()
        for place, l2 in enumerate((0.1, 0.01)):
            model = LogisticRegression(C=1 / (chosen.sum() * l2), tol=1e-10, max_iter=10_000)
            model.fit(z[chosen], y.numpy()[chosen])
            logits = z[chosen] @ model.coef_.T + model.intercept_
            value = cross_entropy(logits, y.numpy()[chosen])
            value += l2 / 2 * np.square(model.coef_).sum()
            assert float(minimum.value[2 * part + place]) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_the_scale_of_the_rows_moves_nothing(factor):
    x, y = rows_of(200, 8, 4, offset=0.0)
    _, _, plain = solved(x, Softmax(y, 4))
    scaled = x.clone()
    scaled[:, ::2] *= factor
    _, _, other = solved(scaled, Softmax(y, 4))
    np.testing.assert_allclose(other.value, plain.value, rtol=1e-5)


def test_constant_and_repeated_columns_do_no_harm():
    x, y = rows_of(150, 6, 3)
    wide = torch.cat([x, x, torch.full((150, 2), 7.5), torch.zeros(150, 1)], 1)
    _, _, minimum = solved(wide, Softmax(y, 3))
    assert minimum.converged.all()
    for place, l2 in enumerate(STRENGTHS):
        assert float(minimum.value[place]) == pytest.approx(judge(wide, y.numpy(), l2)[0], rel=1e-6)


def test_rows_without_anything_give_the_shares_of_the_classes():
    y = torch.tensor([0, 0, 0, 1, 1, 2])
    _, _objective, minimum = solved(torch.ones(6, 4), Softmax(y, 3), blocks=1)
    entropy = -np.sum([p * np.log(p) for p in (1 / 2, 1 / 3, 1 / 6)])
    np.testing.assert_allclose(minimum.value, entropy, rtol=1e-6)
    assert minimum.converged.all()


@pytest.mark.parametrize("shape", [(200, 15), (30, 50)])
def test_ridge_as_scikit_learn_and_as_the_solver(shape):
    x, _ = rows_of(*shape, 2)
    t = x[:, 0].double() * 2 - x[:, 1].double() + torch.randn(shape[0]).double()
    basis = basis_of(x)
    seen = torch.ones(2, shape[0])
    seen[1, ::4] = 0
    ridge = RidgeSums(Problems.of(STRENGTHS, seen), t)
    z = basis.apply(x)
    ridge.add(slice(0, 20), z[:20])
    ridge.add(slice(20, shape[0]), z[20:])
    found = ridge.finish()
    _, _, descended = solved(x, Squares(t), parts=seen)
    np.testing.assert_allclose(found.value, descended.value, rtol=1e-5, atol=1e-6)
    for part in range(2):
        chosen = seen[part].bool()
        for place, l2 in enumerate(STRENGTHS):
            model = Ridge(alpha=float(chosen.sum()) * l2, solver="svd")
            own, target = z[chosen].double().numpy(), t[chosen].numpy()
            model.fit(own, target)
            error = np.square(model.predict(own) - target).mean() / 2
            value = error + l2 / 2 * np.square(model.coef_).sum()
            point = part * len(STRENGTHS) + place
            assert float(found.value[point]) == pytest.approx(value, rel=1e-6)


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
