"""Every measure against an independent reference, in blocks of any size, and on hostile rows."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group
from sklearn.metrics.pairwise import cosine_similarity

from probekit.errors import EntryError
from probekit.measures.measured_rows import (
    LayerSimilarity,
    MeasuredRows,
    intrinsic_dimension,
    sum_layers,
)
from probekit.measures.measuring import massive_channels, medians


class Stored:
    """A float array (layers, rows, dim) with the reading side of `FeatureArray`."""

    def __init__(self, values):
        self.values = torch.as_tensor(values)
        self.layers = list(range(len(self.values)))
        self.dim = self.values.shape[2]
        self.spec = SimpleNamespace(name="words")

    def read(self, rows, layers=None):
        chosen = self.layers if layers is None else list(layers)
        return self.values[chosen][:, torch.as_tensor(rows)].permute(1, 0, 2)


def measured(values, block=7):
    """All rows of some layers (layers, rows, dim), read in blocks."""
    array = Stored(values)
    n = array.values.shape[1]
    return MeasuredRows(array=array, rows=np.arange(n), of_rows=n, block=block, where="here")


@pytest.fixture
def values():
    """Three layers of 40 rows of 6 channels of different spread, off centre."""
    rng = np.random.default_rng(3)
    found = rng.normal(0.5, [[[0.1, 1, 2, 0.5, 3, 1]]], (3, 40, 6))
    found[1] += found[0] @ rng.normal(0, 1, (6, 6))
    return found


def alike(rows, **options):
    return LayerSimilarity(rows, sum_layers(rows), **options)


def gram_cka(x, y):
    """Linear CKA from Gram matrices: HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L))."""
    centre = np.eye(len(x)) - 1 / len(x)
    k, m = centre @ x @ x.T @ centre, centre @ y @ y.T @ centre
    return (k * m).sum() / math.sqrt((k * k).sum() * (m * m).sum())


@pytest.mark.parametrize(("block", "memory"), [(1, 1), (7, 10**9), (39, 600), (100, 2 * 8 * 36)])
def test_cka_is_that_of_gram_matrices(values, block, memory):
    found = alike(measured(values, block), memory=memory).cka
    expected = [[gram_cka(x, y) for y in values] for x in values]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(np.diag(found), 1, rtol=1e-12)


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_cka_of_rows_whose_products_are_beyond_float32(values, factor):
    scaled = values * np.array([factor, 1, 1 / factor])[:, None, None]
    np.testing.assert_allclose(alike(measured(scaled)).cka, alike(measured(values)).cka, rtol=1e-5)


def test_cka_is_blind_to_rotation_scale_and_place(values):
    turned = values[0] @ ortho_group.rvs(6, random_state=1) * 7 + 100
    other = np.random.default_rng(0).normal(size=(40, 6))
    found = alike(measured(np.stack([values[0], turned, other]))).cka
    assert found[0, 1] == pytest.approx(1)
    assert found[0, 2] == pytest.approx(found[1, 2], rel=1e-5)
    assert found[0, 2] < 0.5


def test_effective_rank_is_of_the_covariance_and_not_of_the_rows(values):
    """Eigenvalues of the covariance are squares of what the rows have, so it is the lower one."""
    for layer, found in zip(values, alike(measured(values)).effective_rank, strict=True):
        of_rows = np.linalg.svd(layer - layer.mean(0), compute_uv=False)
        ranks = []
        for shares in (of_rows**2 / (of_rows**2).sum(), of_rows / of_rows.sum()):
            ranks.append(np.exp(-(shares * np.log(shares)).sum()))
        assert found == pytest.approx(ranks[0]) and found < ranks[1]


@pytest.mark.parametrize("block", [1, 7, 100])
def test_sums_are_those_of_all_rows_at_once(values, block):
    found = sum_layers(measured(values, block))
    norms = np.linalg.norm(values, axis=2)
    np.testing.assert_allclose(found.mean, values.mean(1))
    np.testing.assert_allclose(found.norm, norms.mean(1))
    np.testing.assert_allclose(found.norm_deviation, norms.std(1))
    np.testing.assert_allclose(found.largest, np.abs(values).max((1, 2)))
    pairs = ~np.eye(40, dtype=bool)
    cosines = [cosine_similarity(layer)[pairs].mean() for layer in values]
    np.testing.assert_allclose(found.anisotropy, cosines)


def test_rows_of_zeros_have_no_cosine(values):
    padded = np.concatenate([values, np.zeros((3, 5, 6))], 1)
    without, found = sum_layers(measured(values)), sum_layers(measured(padded))
    np.testing.assert_allclose(found.anisotropy, without.anisotropy)
    assert math.isnan(sum_layers(measured(values[:, :1])).anisotropy[0])


@pytest.mark.parametrize("count", [1, 2, 39, 40])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_median_is_exact(values, count, dtype):
    rows = values[:, :count].astype(dtype)
    rows[2] = 0
    rows[2, 0, :2] = 3
    expected = np.median(np.abs(rows.astype(np.float64)).reshape(3, -1), axis=1)
    np.testing.assert_array_equal(medians(measured(rows, 3)), expected)


def test_massive_activations_are_found_where_they_were_planted():
    rows = np.random.default_rng(0).uniform(0.05, 0.15, (4, 60, 8))
    rows[1, :, 5] = -400  # in every row
    rows[1, 4, 2] = 300
    rows[2, 3:5, 7] = 99  # 1,000 times the median, but not over 100
    rows[3] *= 10
    rows[3, 2, 1] = 500  # over 100, but not 1,000 times the median
    source = measured(rows)
    found = massive_channels(source, medians(source), sum_layers(source).largest)
    assert [[(m.channel, m.rows, m.largest) for m in own] for own in found] == [
        [],
        [(5, 60, 400.0), (2, 1, 300.0)],
        [],
        [],
    ]


def planted_manifold(dim, n=1500, seed=0):
    """Rows on a curved manifold of some dimension in 20 channels."""
    rng = np.random.default_rng(seed)
    flat = rng.uniform(-1, 1, (n, dim))
    return np.sin(flat @ rng.normal(0, 0.4, (dim, 20))) + flat @ rng.normal(0, 1, (dim, 20))


@pytest.mark.parametrize("dim", [1, 5])
def test_the_dimension_of_a_manifold_is_found(dim):
    found = intrinsic_dimension(planted_manifold(dim))
    assert found.value == pytest.approx(dim, rel=0.12)
    assert found.low < found.value < found.high


def test_the_dimension_is_the_slope_of_the_paper():
    rows = planted_manifold(3, n=200)
    near = np.sort(cdist(rows, rows), axis=1)
    mu = np.sort(near[:, 2] / near[:, 1])[:180]
    below = -np.log(1 - np.arange(1, 181) / 200)
    slope = np.linalg.lstsq(np.log(mu)[:, None], below, rcond=None)[0][0]
    assert intrinsic_dimension(rows).value == pytest.approx(slope)


def test_the_interval_of_a_dimension_is_as_wide_as_theory_has_it():
    """Of n independent ratios, whose logarithms are exponential, d has the error d / sqrt(n).

    That is of the most likely d (Facco et al. 2017, equation 3: n / sum of log(mu)); the slope of
    the smallest 90 % has a tenth more.
    """
    for n in (400, 1600):
        found = intrinsic_dimension(planted_manifold(3, n=n))
        error = (found.high - found.low) / 2 / 1.96
        assert error == pytest.approx(1.1 * found.value / math.sqrt(n), rel=0.15)
        assert found.rows == n


def test_equal_rows_count_once():
    rows = planted_manifold(2, n=300)
    twice = np.concatenate([rows, rows[:100], rows[:50]])
    assert intrinsic_dimension(twice) == intrinsic_dimension(rows)
    assert intrinsic_dimension(twice).rows == 300
    for undefined in (np.repeat(rows[:4], 50, axis=0), np.eye(30)):  # all equally far apart
        found = intrinsic_dimension(undefined)
        assert all(map(math.isnan, (found.value, found.low, found.high)))


def test_a_huge_channel_hides_no_neighbour():
    rows = planted_manifold(2, n=300)
    beside = np.concatenate([rows, np.full((300, 1), 6e4)], 1)
    wanted = intrinsic_dimension(rows).value
    assert intrinsic_dimension(beside).value == pytest.approx(wanted, rel=1e-6)


def test_squares_beyond_float16_are_no_trouble():
    rows = np.random.default_rng(0).normal(0, 1, (2, 30, 4)).astype(np.float16)
    rows[1, :, 2] = 60000
    sums = sum_layers(measured(rows))
    norms = np.linalg.norm(rows.astype(np.float64), axis=2)
    np.testing.assert_allclose(sums.norm, norms.mean(1))
    expected = gram_cka(*rows.astype(np.float64))
    assert alike(measured(rows)).cka[0, 1] == pytest.approx(expected, rel=1e-6)


def test_of_a_constant_layer_nothing_is_made_up(values):
    values[1] = 0.1  # whose mean, added up, is not 0.1 to the last bit
    for rows in (measured(values), measured(values[:, :1])):
        found = alike(rows)
        assert math.isnan(found.effective_rank[1])
        assert np.isnan(found.cka[1]).all()
    assert found.cka.shape == (3, 3)
    assert alike(measured(values)).cka[0, 2] == pytest.approx(gram_cka(values[0], values[2]))


@pytest.mark.parametrize("wrong", [-math.inf, math.nan])
def test_values_that_are_not_finite_are_refused(values, wrong):
    values[2, 20, 3] = wrong
    with pytest.raises(EntryError, match="layer 2 holds values that are not finite"):
        sum_layers(measured(values))
