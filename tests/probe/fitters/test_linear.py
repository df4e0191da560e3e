"""Linear layers solved for every strength, against scikit-learn on the same standardised rows."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression, Ridge

from probekit.probe.fitters.linear_problems import Problems, RidgeSums
from probekit.probe.fitters.losses import Binary, Softmax, Squares
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
