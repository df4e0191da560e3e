"""What holds for every head in HEADS that reads rows: the exported contract, and a little more."""

import pytest
import torch

from probekit.base.registry import parse
from probekit.errors import OptionError, UnknownNameError
from probekit.probe.heads import HEADS, depth_lstm, head_from_json
from probekit.probe.heads.contract import BackboneFacts, HeadSpec, LayerWeights
from probekit.probe.heads.dwatt import DWAtt
from probekit.probe.heads.laya import LAYA
from probekit.probe.heads.tokens import TokenStates
from probekit.testing.head_checks import (
    BLOCKS,
    DIM,
    HEAD_CHECKS,
    OF_SPECS,
    away_from_start,
    build,
    sample_rows,
)

ROW_HEADS = {name: spec for name, spec in HEADS.items() if spec.reads == "rows"}


@pytest.fixture(params=ROW_HEADS.values(), ids=ROW_HEADS.keys())
def spec(request: pytest.FixtureRequest) -> HeadSpec:
    return request.param()


@pytest.mark.parametrize("check", HEAD_CHECKS, ids=lambda check: check.__name__)
def test_contract(spec: HeadSpec, check) -> None:
    check(spec)


@pytest.mark.parametrize("check", OF_SPECS, ids=lambda check: check.__name__)
def test_contract_of_a_head_that_reads_subwords(check) -> None:
    check(HEADS["extra-layers"]())


def test_is_found_by_its_name(spec: HeadSpec) -> None:
    assert HEADS[spec.name] is type(spec)


def test_needs_nothing_of_the_backbone(spec: HeadSpec) -> None:
    assert spec.bind(BackboneFacts(n_blocks=BLOCKS, dim=DIM, config={})) is spec


def test_training_draws_nothing(spec: HeadSpec) -> None:
    head = build(spec).train()
    assert torch.equal(head(sample_rows()), head(sample_rows()))


def test_wrong_input(spec: HeadSpec) -> None:
    head = build(spec)
    with pytest.raises(OptionError, match="4 layers of width 48; found 3 layers of width 48"):
        head(sample_rows()[:, :3])
    with pytest.raises(OptionError, match="found 4 layers of width 47"):
        head(sample_rows()[..., :47])
    none = torch.zeros(0, dtype=torch.int64)
    tokens = TokenStates(hidden=sample_rows()[0], lengths=none, source=none, row=none, n_rows=0)
    with pytest.raises(OptionError, match="reads word rows"):
        head(tokens)


@pytest.mark.parametrize("layers", [(), (2, 1), (1, 1)])
def test_wrong_layers(layers: tuple[int, ...]) -> None:
    with pytest.raises(OptionError, match="ascending"):
        build(HEADS["mean"](), layers=layers)


def test_depth_lstm_stays_in_float32_where_bfloat16_is_not_native(monkeypatch) -> None:
    monkeypatch.setattr(depth_lstm, "native_bfloat16", lambda device="cpu": False)
    head, z = build(HEADS["depth-lstm"]()), sample_rows()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = head(z)
    assert torch.equal(under, head(z))


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


def test_a_part_is_that_of_its_layer(spec: HeadSpec) -> None:
    """A layer of zeros adds nothing that varies, unless the head adds a shift of its own to it."""
    head, z = away_from_start(spec), sample_rows()
    if not head.additive or spec.name in ("dwatt", "laya"):
        return
    z[:, 1] = 0
    assert head.layer_parts(z)[1].abs().max() == 0
