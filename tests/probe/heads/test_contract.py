"""What holds for every head in HEADS that reads rows: the exported contract, and a little more."""

import pytest
import torch

from probekit.base.registry import parse
from probekit.errors import OptionError, UnknownNameError
from probekit.probe.heads import HEADS, depth_lstm, head_from_json
from probekit.probe.heads.contract import BackboneFacts, HeadSpec, LayerWeights
from probekit.probe.heads.dwatt import DWAtt
from probekit.probe.heads.laya import LAYA
from probekit.testing.head_checks import BLOCKS, DIM, HEAD_CHECKS, OF_SPECS, build, sample_rows

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


def test_needs_nothing_of_the_backbone(spec: HeadSpec) -> None:
    assert spec.bind(BackboneFacts(n_blocks=BLOCKS, dim=DIM, config={})) is spec


def test_wrong_layers() -> None:
    with pytest.raises(OptionError, match="ascending"):
        build(HEADS["mean"](), layers=(2, 1))


def test_depth_lstm_stays_in_float32_where_bfloat16_is_not_native(monkeypatch) -> None:
    monkeypatch.setattr(depth_lstm, "native_bfloat16", lambda device="cpu": False)
    head, z = build(HEADS["depth-lstm"]()), sample_rows()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = head(z)
    assert torch.equal(under, head(z))


def test_unknown_head() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'dwatt'"):
        head_from_json({"name": "dwat"})


@pytest.mark.parametrize(
    ("head", "options"),
    [
        *((DWAtt, wrong) for wrong in ({"d_pos": 0}, {"bottleneck": 0.0})),
        *((LAYA, wrong) for wrong in ({"width": 0}, {"scorer": 0}, {"tau": 0.0})),
    ],
)
def test_options_out_of_range_are_refused(head, options) -> None:
    with pytest.raises(OptionError, match=head.name):
        head(**options)


@pytest.mark.parametrize("text", ["dwatt:bottleneck=inf", "laya:tau=inf", "laya:tau=nan"])
def test_no_option_is_infinite(text: str) -> None:
    name, option = text.replace("=", ":").split(":")[:2]
    with pytest.raises(OptionError, match=f"head '{name}': {option} must be finite; found "):
        parse("head", text, HEADS)


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
