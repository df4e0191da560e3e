"""What holds for every head in HEADS that reads rows."""

import json

import pytest
import torch
from torch import Tensor

from probekit.base.layers import parse_layers, up_to_depth
from probekit.base.registry import parse
from probekit.errors import OptionError, UnknownNameError
from probekit.probe.heads import HEADS, depth_lstm, head_from_json
from probekit.probe.heads.contract import BackboneFacts, FusionHead, HeadSpec, LayerWeights
from probekit.probe.heads.dwatt import DWAtt
from probekit.probe.heads.laya import LAYA
from probekit.probe.heads.tokens import TokenStates

LAYERS, DIM, ROWS = (1, 2, 4, 6), 12, 9


ROW_HEADS = {name: spec for name, spec in HEADS.items() if spec.reads == "rows"}


@pytest.fixture(params=ROW_HEADS.values(), ids=ROW_HEADS.keys())
def spec(request: pytest.FixtureRequest) -> HeadSpec:
    return request.param()


def build(spec: HeadSpec, seed: int = 0, layers: tuple[int, ...] = LAYERS) -> FusionHead:
    return spec.build(layers, DIM, torch.Generator().manual_seed(seed))


def trained(spec: HeadSpec, layers: tuple[int, ...] = LAYERS) -> FusionHead:
    """A head away from its start, so that nothing is equal by being zero."""
    head, generator = build(spec, layers=layers), torch.Generator().manual_seed(7)
    with torch.no_grad():
        for p in head.parameters():
            p.add_(torch.randn(p.shape, generator=generator), alpha=0.2)
    return head


def rows(
    seed: int = 0, layers: tuple[int, ...] = LAYERS, dtype: torch.dtype = torch.float32
) -> Tensor:
    generator = torch.Generator().manual_seed(100 + seed)
    return torch.randn(len(layers), ROWS, DIM, generator=generator).to(dtype).transpose(0, 1)


def test_describes_itself(spec: HeadSpec) -> None:
    assert HEADS[spec.name] is type(spec)
    assert spec.source and spec.summary and spec.formula
    assert 0 < spec.learning_rate < 1
    assert parse_layers(spec.default_layers, 12)[-1] == 12
    assert build(spec).reads == spec.reads


def test_needs_nothing_of_the_backbone(spec: HeadSpec) -> None:
    assert spec.bind(BackboneFacts(n_blocks=6, dim=DIM, config={})) is spec


def test_json_round_trip(spec: HeadSpec) -> None:
    assert head_from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_json_refuses_unknown_options(spec: HeadSpec) -> None:
    with pytest.raises(OptionError, match="colour"):
        head_from_json(spec.to_json() | {"colour": 1})


def test_options_are_frozen(spec: HeadSpec) -> None:
    with pytest.raises(AttributeError):
        spec.name = "other"


def test_output(spec: HeadSpec) -> None:
    head = build(spec)
    h = head(rows())
    assert (head.layers, head.dim) == (LAYERS, DIM)
    assert h.shape == (ROWS, head.width)
    assert h.dtype == torch.float32


def test_no_rows(spec: HeadSpec) -> None:
    head = build(spec)
    assert head(rows()[:0]).shape == (0, head.width)


@pytest.mark.parametrize("depth", [0, 1, 2, 5, 6])
def test_cut_at_any_depth(spec: HeadSpec, depth: int) -> None:
    layers = up_to_depth(parse_layers(spec.default_layers, 6), depth)
    z = rows(layers=layers)
    head = build(spec, layers=layers)
    assert head(z).shape == (ROWS, head.width)
    assert head.layer_weights(z).by_layer().keys() == set(layers)


def test_state_dict_round_trip(spec: HeadSpec) -> None:
    head, other = trained(spec), build(spec, seed=5)
    other.load_state_dict(head.state_dict())
    assert torch.equal(head(rows()), other(rows()))


def test_the_seed_decides(spec: HeadSpec) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = build(spec, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    second, third = build(spec, seed=3).state_dict(), build(spec, seed=4).state_dict()
    for name, value in first.state_dict().items():
        assert torch.equal(value, second[name])
        starts_fixed = value.unique().numel() == 1
        assert starts_fixed or not torch.equal(value, third[name])


def test_forward_draws_nothing(spec: HeadSpec) -> None:
    head = build(spec).train()
    before = torch.get_rng_state()
    assert torch.equal(head(rows()), head(rows()))
    assert torch.equal(torch.get_rng_state(), before)


def test_gradient_reaches_every_parameter(spec: HeadSpec) -> None:
    head = trained(spec)
    h = head(rows())
    assert h.requires_grad == (len(list(head.parameters())) > 0)
    if h.requires_grad:
        pull = torch.randn(h.shape, generator=torch.Generator().manual_seed(8))
        (h * pull).sum().backward()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        # W_K's bias adds the same score to every layer, which softmax cancels.
        assert name == "key_bias" or parameter.grad.abs().max() > 1e-6, name


def test_rows_are_independent(spec: HeadSpec) -> None:
    head, z = trained(spec), rows()
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(head(z[order]), head(z)[order], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(head(z[2:3]), head(z)[2:3], rtol=1e-5, atol=1e-6)


def test_project_equals_the_map_after_the_head(spec: HeadSpec) -> None:
    head, z, generator = trained(spec), rows(), torch.Generator().manual_seed(3)
    weight = torch.randn(5, head.width, generator=generator)
    bias = torch.randn(5, generator=generator)
    found = head.project(z, weight, bias)
    torch.testing.assert_close(found, head(z) @ weight.t() + bias, rtol=1e-4, atol=1e-4)


def test_layer_weights_sum_to_one(spec: HeadSpec) -> None:
    head = trained(spec)
    weights = head.layer_weights(rows())
    shape = (ROWS, len(LAYERS)) if head.per_row else (len(LAYERS),)
    assert weights.layers == LAYERS
    assert weights.weights.shape == shape
    assert not weights.weights.requires_grad
    torch.testing.assert_close(weights.weights.sum(-1), torch.ones(shape[:-1]))
    assert (weights.weights >= 0).all()
    if weights.raw is not None:
        torch.testing.assert_close(weights.raw.softmax(-1), weights.weights)


def test_layer_weights_without_rows(spec: HeadSpec) -> None:
    head = build(spec)
    if head.per_row:
        with pytest.raises(OptionError, match="pass its rows"):
            head.layer_weights()
    else:
        assert torch.equal(head.layer_weights().weights, head.layer_weights(rows()).weights)


def test_layer_weights_are_a_snapshot(spec: HeadSpec) -> None:
    head = build(spec)
    weights = head.layer_weights(rows())
    before = weights.by_layer()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(torch.arange(parameter.numel()).reshape(parameter.shape))
    assert weights.by_layer() == before


def test_every_parameter_is_in_one_of_the_groups_that_the_spec_names(spec: HeadSpec) -> None:
    head = build(spec)
    groups = head.parameter_groups()
    assert set(groups) == {"weights", *spec.group_rates}
    found = [id(parameter) for group in groups.values() for parameter in group]
    assert sorted(found) == sorted(id(parameter) for parameter in head.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rows(spec: HeadSpec, dtype: torch.dtype) -> None:
    head, z = trained(spec), rows(dtype=dtype)
    assert head(z).dtype == torch.float32
    # Without autocast the arithmetic is float32: the same as widening the rows first.
    assert torch.equal(head(z), head(z.float()))
    assert head.layer_weights(z).weights.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_autocast(spec: HeadSpec, dtype: torch.dtype) -> None:
    head, z = trained(spec), rows(dtype=dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = head(z)
        weights = head.layer_weights(z).weights
    assert h.dtype == torch.float32
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    exact = head(z.float())
    assert (h - exact).norm() < 0.02 * exact.norm()


def test_depth_lstm_stays_in_float32_where_bfloat16_is_not_native(monkeypatch) -> None:
    monkeypatch.setattr(depth_lstm, "native_bfloat16", lambda device="cpu": False)
    head, z = build(HEADS["depth-lstm"]()), rows()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = head(z)
    assert torch.equal(under, head(z))


def test_massive_activations_stay_finite(spec: HeadSpec) -> None:
    """A decoder's first token: one channel near 30,000 (SmolLM2-135M), in float16."""
    head, z = trained(spec), rows()
    z[0, 1:, 3] = 29_303.0
    z[1, 1:, 3] = -29_303.0
    for autocast in (False, True):
        head.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            h = head(z.half())
        assert h.isfinite().all()
        assert head.layer_weights(z.half()).weights.isfinite().all()
        if h.requires_grad:
            h.mean().backward()
            assert all(p.grad.isfinite().all() for p in head.parameters() if p.grad is not None)


def test_wrong_input(spec: HeadSpec) -> None:
    head = build(spec)
    with pytest.raises(OptionError, match="4 layers of width 12; found 3 layers of width 12"):
        head(rows()[:, :3])
    with pytest.raises(OptionError, match="found 4 layers of width 11"):
        head(rows()[..., :11])
    none = torch.zeros(0, dtype=torch.int64)
    tokens = TokenStates(hidden=rows()[0], lengths=none, source=none, row=none, n_rows=0)
    with pytest.raises(OptionError, match="reads word rows"):
        head(tokens)


@pytest.mark.parametrize("layers", [(), (2, 1), (1, 1)])
def test_wrong_layers(spec: HeadSpec, layers: tuple[int, ...]) -> None:
    with pytest.raises(OptionError, match="ascending"):
        build(spec, layers=layers)


def test_unknown_head() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'dwatt'"):
        head_from_json({"name": "dwat"})


@pytest.mark.parametrize("options", [{"d_pos": 0}, {"bottleneck": 0.0}, {"bottleneck": -1.0}])
def test_dwatt_refuses(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="dwatt"):
        DWAtt(**options)


@pytest.mark.parametrize("text", ["dwatt:bottleneck=inf", "laya:tau=inf", "laya:tau=nan"])
def test_no_option_is_infinite(text: str) -> None:
    name, option = text.replace("=", ":").split(":")[:2]
    with pytest.raises(OptionError, match=f"head '{name}': {option} must be finite; found "):
        parse("head", text, HEADS)


@pytest.mark.parametrize("options", [{"width": 0}, {"scorer": 0}, {"tau": 0.0}])
def test_laya_refuses(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="laya"):
        LAYA(**options)


def test_layer_weights_average_select_and_join() -> None:
    weights = LayerWeights((0, 5), torch.tensor([[0.25, 0.75], [0.75, 0.25], [1.0, 0.0]]))
    assert weights.by_layer() == pytest.approx({0: 2 / 3, 5: 1 / 3})
    assert weights.raw_by_layer() is None
    assert weights.select(torch.tensor([True, True, False])).by_layer() == {0: 0.5, 5: 0.5}
    parts = [weights.select(torch.tensor([0])), weights.select(torch.tensor([1, 2]))]
    assert torch.equal(LayerWeights.concatenate(parts).weights, weights.weights)
    raw = LayerWeights((1, 2), torch.tensor([0.5, 0.5]), torch.tensor([3.0, 3.0]))
    assert LayerWeights.concatenate([raw, raw]) is raw
    assert raw.select(torch.tensor([0])).raw_by_layer() == {1: 3.0, 2: 3.0}


def test_parts_make_h_but_for_a_constant(spec: HeadSpec) -> None:
    head, z = trained(spec), rows()
    if not head.additive:
        with pytest.raises(NotImplementedError, match="no sum over layers"):
            head.layer_parts(z)
        return
    weight = torch.randn(3, head.width, generator=torch.Generator().manual_seed(1))
    h, parts = head(z).detach(), head.layer_parts(z)
    assert parts.shape == (len(LAYERS), ROWS, head.width) and not parts.requires_grad
    constant = h - parts.sum(0)
    torch.testing.assert_close(constant, constant[:1].expand_as(h), atol=1e-5, rtol=0)
    found = head.layer_parts(z, weight)
    torch.testing.assert_close(found, parts @ weight.t(), atol=1e-5, rtol=1e-5)


def test_a_part_is_that_of_its_layer(spec: HeadSpec) -> None:
    """A layer of zeros adds nothing that varies, unless the head adds a shift of its own to it."""
    head, z = trained(spec), rows()
    if not head.additive or spec.name in ("dwatt", "laya"):
        return
    z[:, 1] = 0
    assert head.layer_parts(z)[1].abs().max() == 0
