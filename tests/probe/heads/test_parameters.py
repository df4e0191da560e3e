"""First weights are as promised, so are the parameters that mix layers, and sums over layers."""

import math

import pytest
import torch
from transformers import RobertaConfig

from probekit.base.layers import parse_layers
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import BackboneFacts, FusionHead
from probekit.probe.heads.sums import row_sum


def published(name: str, n_blocks: int = 24, dim: int = 1024) -> FusionHead:
    layers = parse_layers(HEADS[name].default_layers, n_blocks)
    sizes = {"hidden_size": dim, "intermediate_size": 4 * dim, "num_attention_heads": 16}
    config = RobertaConfig(num_hidden_layers=n_blocks, **sizes).to_dict()
    spec = HEADS[name]().bind(BackboneFacts(n_blocks=n_blocks, dim=dim, config=config))
    return spec.build(layers, dim, torch.Generator().manual_seed(0))


def test_depth_lstm_starts_as_torch_would() -> None:
    for parameter in published("depth-lstm", n_blocks=3, dim=64).parameters():
        assert 0.9 / 8 < parameter.abs().max() <= 1 / 8


@pytest.mark.parametrize("name", ["p32", "scalar-mix", "attention-fusion"])
def test_light_fusions_start_as_the_average(name: str) -> None:
    head = published(name, n_blocks=4, dim=8)
    z = torch.randn(6, len(head.layers), 8, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(head(z), z.mean(1))


def test_concat_starts_as_one_linear_layer_over_all_layers() -> None:
    head = published("concat", n_blocks=6, dim=64)
    bound = 1 / math.sqrt(6 * 64)
    for parameter in head.parameters():
        assert parameter.abs().max() <= bound
    assert head.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_dwatt_starts_as_torch_would() -> None:
    head = published("dwatt", n_blocks=6, dim=64)
    assert head.pos.shape == (6, 24)
    assert 0 <= head.pos.min() < 0.1 and 0.9 < head.pos.max() < 1
    assert "pos" in head.state_dict()
    for stack in (head.value, head.query):
        assert 0.9 / 8 < stack.u.abs().max() <= 1 / 8  # fan-in 64
        assert 0.9 / math.sqrt(32) < stack.w.abs().max() <= 1 / math.sqrt(32)  # fan-in 32
        assert (stack.norm.weight == 1).all() and (stack.norm.bias == 0).all()


@pytest.mark.parametrize(
    "name", ["p32", "scalar-mix", "attention-fusion", "concat", "dwatt", "laya"]
)
def test_mixing_parameters(name: str) -> None:
    head = published(name, n_blocks=2, dim=4)
    mixing = {id(p) for p in head.parameter_groups().get("mixing", ())}
    names = {n for n, p in head.named_parameters() if id(p) in mixing}
    query = {f"query.{n}" for n in ("u", "u_bias", "norm.weight", "norm.bias", "w", "w_bias")}
    assert (
        names
        == {
            "p32": {"lambda_"}, "scalar-mix": {"s", "gamma"}, "attention-fusion": {"q"},
            "concat": set(), "dwatt": {"key", "key_bias"} | query,
            "laya": {"u", "u_bias", "v", "v_bias"},
        }[name]
    )  # fmt: skip


def test_concat_weights_are_shares_of_the_norm() -> None:
    head = published("concat", n_blocks=2, dim=3)
    with torch.no_grad():
        head.weight[0], head.weight[1] = 1.0, 3.0
    assert head.layer_weights().by_layer() == {1: 0.25, 2: 0.75}


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
