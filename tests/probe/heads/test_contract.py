"""What holds for every head in HEADS that reads rows: the exported contract, and a little more."""

import pytest
import torch

from probekit.base.registry import parse
from probekit.errors import OptionError, UnknownNameError
from probekit.probe.heads import HEADS, depth_lstm, head_from_json
from probekit.probe.heads.contract import BackboneFacts, HeadSpec, LayerWeights
from probekit.probe.heads.dwatt import DWAtt
from probekit.probe.heads.laya import LAYA
from probekit.probe.heads.token_inputs import TokenStates
from probekit.testing.head_checks import (
    BLOCKS,
    DIM,
    HEAD_CHECKS,
    OF_SPECS,
    away_from_start,
    build,
    sample_rows,
)
from probekit.testing.promises import demand, refuses

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


def test_asks_for_rows_to_weigh(spec: HeadSpec) -> None:
    """Weights that differ by row need the rows; returned weights do not change later."""
    head = build(spec)
    weights = head.layer_weights(sample_rows())
    if head.per_row:
        refuses(head.layer_weights, error=OptionError)
    else:
        same = torch.equal(head.layer_weights().weights, weights.weights)
        demand(same, "weights depend on rows, and per_row is False")
    before = weights.by_layer()
    with torch.no_grad():
        for values in head.parameters():
            values.add_(torch.arange(values.numel()).reshape(values.shape))
    demand(weights.by_layer() == before, "weights that were returned changed with the parameters")


def test_widens_half_precision(spec: HeadSpec) -> None:
    """Rows in half precision are computed in float32, also under autocast."""
    head = away_from_start(spec)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        z = sample_rows(dtype=dtype)
        exact = head(z.float())
        demand(head(z).dtype == torch.float32, f"h of {dtype} rows is in {head(z).dtype}")
        demand(torch.equal(head(z), exact), f"{dtype} rows are not widened first")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h, weights = head(z), head.layer_weights(z).weights
        demand(h.dtype == weights.dtype == torch.float32, "autocast leaves h or weights in half")
        demand(bool((h - exact).norm() < 0.02 * exact.norm()), "autocast moves h by over 2 %")


def test_refuses_other_rows(spec: HeadSpec) -> None:
    """It refuses rows of other layers or another width, and layers that do not ascend."""
    head, z, none = build(spec), sample_rows(), torch.zeros(0, dtype=torch.int64)
    subwords = TokenStates(hidden=z[0], lengths=none, source=none, row=none, n_rows=0)
    for odd in (z[:, :3], z[..., :-1], subwords):
        refuses(head, odd, error=OptionError)
    for layers in ((), (2, 1), (1, 1)):
        refuses(build, spec, 0, layers, error=OptionError)


def test_needs_nothing_of_the_backbone(spec: HeadSpec) -> None:
    assert spec.bind(BackboneFacts(n_blocks=BLOCKS, dim=DIM, config={})) is spec


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
