"""Normalisation of layers: the contract, and against NumPy, torch and transformers' own norms."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from probekit.errors import OptionError, UnknownNameError
from probekit.probe.fitters.preconditioner import Scale
from probekit.probe.normalization import (
    NORMALIZATIONS,
    Normalization,
    RowFacts,
    normalization_from_json,
)
from probekit.testing import row_checks
from probekit.testing.row_checks import DIM, LAYERS, NORMALIZATION_CHECKS, ROWS
from probekit.testing.row_checks import sample_final_norm as final_norm
from probekit.testing.row_checks import sample_rows as rows


@pytest.mark.parametrize("check", NORMALIZATION_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_contract(name: str, check) -> None:
    check(NORMALIZATIONS[name])


def test_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="standardize"):
        normalization_from_json({"name": "standardise"}, LAYERS, DIM)


def fit(name: str, z: Tensor | None = None) -> Normalization:
    return row_checks.fit(NORMALIZATIONS[name], z)


@pytest.mark.parametrize(
    ("name", "axis", "eps"), [("layernorm", -1, 1e-5), ("standardize", 0, 0.0)]
)
def test_equals_numpy(name: str, axis: int, eps: float) -> None:
    z = rows().double().numpy()
    deviation = np.sqrt(z.var(axis, keepdims=True) + eps)
    expected = (z - z.mean(axis, keepdims=True)) / deviation
    np.testing.assert_allclose(fit(name)(rows()).numpy(), expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=50)
@given(
    cuts=st.lists(st.integers(0, ROWS), max_size=6).map(sorted),
    shift=st.sampled_from([0.0, 1e3, -3e4]),
)
def test_standardize_does_not_depend_on_the_blocks(cuts: list[int], shift: float) -> None:
    """Any cut into blocks, empty ones too, and a mean far larger than the deviation."""
    z = rows(shift=shift)
    bounds = [0, *cuts, ROWS]
    blocks = [z[a:b] for a, b in pairwise(bounds)]
    fitted = NORMALIZATIONS["standardize"].fit(blocks, LAYERS, RowFacts())
    exact = z.double().numpy()
    np.testing.assert_allclose(fitted.mean, exact.mean(0), rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(1 / fitted.scale, exact.std(0), rtol=1e-4)


def test_standardize_leaves_noise_in_a_dead_channel_alone() -> None:
    z = rows()
    z[:, 1, 4] = 2.0
    fitted = fit("standardize", z)
    assert (fitted(z)[:, 1, 4] == 0).all()
    noisy = z.clone()
    noisy[0, 1, 4] += 0.1
    assert fitted(noisy)[0, 1, 4].abs() < 0.1


def test_a_dead_channel_gets_no_large_weight() -> None:
    """Noise of 1e-8 is read neither by a normalisation nor inside of a solved fit."""
    deviation = torch.full((DIM,), 0.5).double()
    deviation[0], deviation[-1] = 2e-8, 0.0
    assert Scale.of(torch.zeros(DIM).double(), deviation).deviation.min() == 0.5
    assert Scale.of(torch.zeros(DIM).double(), 0 * deviation).deviation.max() == 1.0
    z = rows()
    z[:, :, 0] = 1e-8 * torch.randn(len(z), 1)
    assert fit("standardize", z)(z)[:, :, 0].abs().max() < 1e-6


def test_final_norm_equals_llama() -> None:
    norm = LlamaRMSNorm(DIM, eps=1e-6)
    norm.weight.data = final_norm().weight
    out, z = fit("final-norm")(rows()), rows()
    torch.testing.assert_close(out[:, :2], norm(z[:, :2]).detach())
    assert torch.equal(out[:, 2], z[:, 2])  # layer 3 is normed already


@pytest.mark.parametrize("normed_layer", [None, 12])
def test_final_norm_equals_torch_on_every_layer(normed_layer: int | None) -> None:
    norm = final_norm("layernorm")
    facts = RowFacts(final_norm=norm, normed_layer=normed_layer)
    fitted = NORMALIZATIONS["final-norm"].fit((), LAYERS, facts)
    expected = torch.nn.functional.layer_norm(rows(), (DIM,), norm.weight, norm.bias, norm.eps)
    torch.testing.assert_close(fitted(rows()), expected)


@pytest.mark.parametrize(
    ("name", "message"), [("standardize", "no train row"), ("final-norm", "no final norm")]
)
def test_what_it_needs_is_said(name: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        NORMALIZATIONS[name].fit((), LAYERS, RowFacts())


@pytest.mark.parametrize(
    ("layers", "place"), [((0, 2, 3), 2), ((0, 2), None), ((2, 3), 1), ((3,), 0)]
)
def test_a_saved_final_norm_has_the_place_of_the_layer_that_passes_through(layers, place) -> None:
    part = fit("final-norm").cut(layers)
    wanted = {"name": "final-norm", "kind": "rmsnorm", "eps": 1e-6, "already_normed": place}
    assert part.to_json() == wanted
