"""Normalisation of layers: against NumPy, torch and transformers' own norms."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from probekit.errors import OptionError, UnknownNameError
from probekit.probe.model_parts.final_norm import FinalNorm
from probekit.probe.normalization.norms import (
    NORMALIZATIONS,
    Normalization,
    fit_normalization,
    normalization_from_json,
)

LAYERS, DIM, ROWS = (0, 2, 3), 8, 50


def rows(dtype: torch.dtype = torch.float32, scale: float = 3.0, shift: float = 5.0) -> Tensor:
    z = torch.randn(len(LAYERS), ROWS, DIM, generator=torch.Generator().manual_seed(0))
    return (z * scale + shift).to(dtype).transpose(0, 1)


def final_norm(kind: str = "rmsnorm") -> FinalNorm:
    generator = torch.Generator().manual_seed(1)
    weight, bias = torch.rand(2, DIM, generator=generator)
    return FinalNorm(kind=kind, weight=weight, bias=bias if kind == "layernorm" else None, eps=1e-6)


def fit(name: str, z: Tensor | None = None, already_normed: int | None = 3) -> Normalization:
    blocks = (rows() if z is None else z).split(13)
    return fit_normalization(
        name, blocks, layers=LAYERS, final_norm=final_norm(), already_normed=already_normed
    )


@pytest.mark.parametrize("name", NORMALIZATIONS)
class TestEvery:
    def test_shape_and_memory(self, name: str) -> None:
        out = fit(name)(rows())
        assert out.shape == rows().shape
        assert out.transpose(0, 1).is_contiguous()

    def test_has_no_parameters(self, name: str) -> None:
        assert not list(fit(name).parameters())

    def test_does_not_write_to_its_input(self, name: str) -> None:
        z = rows()
        fit(name)(z)
        assert torch.equal(z, rows())

    def test_saves_and_loads(self, name: str) -> None:
        fitted = fit(name)
        value = json.loads(json.dumps(fitted.to_json()))
        other = normalization_from_json(value, len(LAYERS), DIM)
        other.load_state_dict(fitted.state_dict())
        assert torch.equal(other(rows()), fitted(rows()))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_rows_become_float32(self, name: str, dtype: torch.dtype) -> None:
        z = rows(dtype)
        out = fit(name, z)(z)
        assert out.dtype == (dtype if name == "none" else torch.float32)
        assert torch.equal(out, fit(name, z)(z.float()).to(out.dtype))

    def test_massive_activations(self, name: str) -> None:
        z = rows(torch.float16)
        z[::7, 1, 2] = 29_303.0
        assert fit(name, z)(z).isfinite().all()


def test_none_is_the_same_object() -> None:
    z = rows()
    assert fit("none")(z) is z


def test_layernorm_equals_numpy() -> None:
    z = rows().double().numpy()
    expected = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(fit("layernorm")(rows()).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_standardize_equals_numpy() -> None:
    z = rows().double().numpy()
    expected = (z - z.mean(0)) / z.std(0)
    np.testing.assert_allclose(fit("standardize")(rows()).numpy(), expected, rtol=1e-4, atol=1e-5)


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
    fitted = fit_normalization("standardize", blocks, layers=LAYERS)
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


def test_standardize_of_one_row_is_zero() -> None:
    z = rows()[:1]
    assert (fit("standardize", z)(z) == 0).all()


def test_standardize_needs_rows() -> None:
    with pytest.raises(OptionError, match="no train row"):
        fit("standardize", rows()[:0])


def test_final_norm_equals_llama() -> None:
    norm = LlamaRMSNorm(DIM, eps=1e-6)
    norm.weight.data = final_norm().weight
    out, z = fit("final-norm")(rows()), rows()
    torch.testing.assert_close(out[:, :2], norm(z[:, :2]).detach())
    assert torch.equal(out[:, 2], z[:, 2])  # layer 3 is normed already


@pytest.mark.parametrize("already_normed", [None, 12])
def test_final_norm_equals_torch_on_every_layer(already_normed: int | None) -> None:
    norm = final_norm("layernorm")
    fitted = fit_normalization(
        "final-norm", layers=LAYERS, final_norm=norm, already_normed=already_normed
    )
    expected = torch.nn.functional.layer_norm(rows(), (DIM,), norm.weight, norm.bias, norm.eps)
    torch.testing.assert_close(fitted(rows()), expected)


def test_final_norm_needs_one() -> None:
    with pytest.raises(OptionError, match="no final norm"):
        fit_normalization("final-norm", layers=LAYERS)


def test_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="standardize"):
        fit("standardise")
