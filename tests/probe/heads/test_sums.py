"""Sums over layers equal their formulas, and so do their gradients."""

import pytest
import torch

from probekit.probe.heads.sums import row_sum


def _case(n_layers, rows, dtype, *, needs_z):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(n_layers, rows, 5, dtype=torch.float64, generator=generator).to(dtype)
    weights = torch.rand(n_layers, rows, dtype=torch.float64, generator=generator)
    return weights.requires_grad_(), z.requires_grad_(needs_z)


@pytest.mark.parametrize(("n_layers", "rows"), [(4, 7), (3, 0)])
@pytest.mark.parametrize("needs_z", [True, False])
def test_row_sum_and_its_gradients(n_layers, rows, needs_z):
    weights, z = _case(n_layers, rows, torch.float64, needs_z=needs_z)
    torch.testing.assert_close(row_sum(weights, z), torch.einsum("lr,lrd->rd", weights, z))
    assert torch.autograd.gradcheck(row_sum, (weights, z))
    assert not needs_z or torch.autograd.gradcheck(row_sum, (weights.detach(), z))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_row_sum_of_half_precision_is_in_float32(dtype):
    weights, z = _case(4, 6, dtype, needs_z=False)
    with torch.autocast("cpu", torch.bfloat16):
        found = row_sum(weights.float(), z)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.einsum("lr,lrd->rd", weights.float(), z.float()))
