"""Parameter counts at L = 24, d = 1024 are the published ones, and starts are as promised."""

import math

import pytest
import torch
from transformers import RobertaConfig

from probekit.base.layers import parse_layers
from probekit.probe.decoders import Linear
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import BackboneFacts, FusionHead

COUNTS = {
    "last": 0,
    "mean": 0,
    "p32": 24,
    "scalar-mix": 25 + 1,
    "attention-fusion": 1024,
    "concat": 25_166_848,
    "concat-ffn": 0,
    "dwatt": 26_353_152,
    "extra-layers": 25_192_448,
    "depth-lstm": 8 * 1024 * 1024 + 8 * 1024,
    "laya": 24 * (1024 + 1) * 256 + (24 * 256 + 1) * 512 + (512 + 1) * 24,
}


def published(name: str, n_blocks: int = 24, dim: int = 1024) -> FusionHead:
    layers = parse_layers(HEADS[name].default_layers, n_blocks)
    sizes = {"hidden_size": dim, "intermediate_size": 4 * dim, "num_attention_heads": 16}
    config = RobertaConfig(num_hidden_layers=n_blocks, **sizes).to_dict()
    spec = HEADS[name]().bind(BackboneFacts(n_blocks=n_blocks, dim=dim, config=config))
    return spec.build(layers, dim, torch.Generator().manual_seed(0))


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str) -> None:  # the README's table, which is a test too, has those of all
    assert count(published(name)) == COUNTS[name]


def test_concat_with_its_classifier_is_the_papers_25_18_million() -> None:
    decoder = Linear().build(1024, 9, torch.Generator())
    assert round((COUNTS["concat"] + count(decoder)) / 1e6, 2) == 25.18


def test_concat_ffn_fills_the_first_layer_of_its_decoder() -> None:
    head = published("concat-ffn")
    assert head.width * 256 == 6_291_456  # "6.2 million" in the attention-fusion paper
    assert HEADS["concat-ffn"].default_decoder == "mlp"


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
            "p32": {"lambda_"},
            "scalar-mix": {"s", "gamma"},
            "attention-fusion": {"q"},
            "concat": set(),
            "dwatt": {"key", "key_bias"} | query,
            "laya": {"u", "u_bias", "v", "v_bias"},
        }[name]
    )


def test_concat_weights_are_shares_of_the_norm() -> None:
    head = published("concat", n_blocks=2, dim=3)
    with torch.no_grad():
        head.weight[0], head.weight[1] = 1.0, 3.0
    assert head.layer_weights().by_layer() == {1: 0.25, 2: 0.75}


def test_last_weighs_its_own_last_layer() -> None:
    assert HEADS["last"]().build((0, 2, 3), 4, torch.Generator()).layer_weights().by_layer() == {
        0: 0.0,
        2: 0.0,
        3: 1.0,
    }
