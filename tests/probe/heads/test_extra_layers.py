"""Extra layers: binding, saving, rows made of subwords."""

import pytest
import torch
from transformers import BertConfig, LlamaConfig, MPNetConfig

from probekit.errors import OptionError
from probekit.probe.heads.contract import BackboneFacts, FusionHead
from probekit.probe.heads.extra_layers import ExtraLayers
from probekit.probe.heads.token_inputs import TokenStates
from probekit.testing.head_checks import is_a_value

DIM = 16
SIZES = {"hidden_size": DIM, "intermediate_size": 32, "num_attention_heads": 2}
CONFIGS = {
    "bert": BertConfig(**SIZES),
    "mpnet": MPNetConfig(**SIZES),
    "llama": LlamaConfig(**SIZES, bos_token_id=None, eos_token_id=None),
}


def facts(family: str = "bert", n_blocks: int = 12) -> BackboneFacts:
    return BackboneFacts(n_blocks=n_blocks, dim=DIM, config=CONFIGS[family].to_dict())


@pytest.fixture(params=CONFIGS)
def spec(request: pytest.FixtureRequest) -> ExtraLayers:
    return ExtraLayers().bind(facts(request.param))


def build(spec: ExtraLayers) -> FusionHead:
    return spec.build((12,), DIM, torch.Generator().manual_seed(0))


def states(**changes: object) -> TokenStates:
    """Two windows of 5 and 3 subwords; row 1 has none and row 3 has three."""
    parts = {
        "hidden": torch.randn(8, DIM, generator=torch.Generator().manual_seed(1)),
        "lengths": torch.tensor([5, 3]), "source": torch.tensor([1, 2, 3, 4, 6]),
        "row": torch.tensor([0, 2, 3, 3, 3]), "n_rows": 5,
    }  # fmt: skip
    return TokenStates(**(parts | changes))


@pytest.mark.parametrize(("n_blocks", "n"), [(6, 1), (12, 1), (13, 2), (24, 2)])
def test_number_of_blocks_is_the_papers(n_blocks: int, n: int) -> None:
    assert ExtraLayers().bind(facts(n_blocks=n_blocks)).n == n
    assert ExtraLayers(n=3).bind(facts(n_blocks=n_blocks)).n == 3


def test_count_at_24_blocks_of_width_1024_of_mpnet() -> None:
    config = MPNetConfig(hidden_size=1024, intermediate_size=4096, num_attention_heads=16).to_dict()
    spec = ExtraLayers().bind(BackboneFacts(n_blocks=24, dim=1024, config=config))
    with torch.device("meta"):
        head = spec.build((24,), 1024, torch.Generator("cpu"))
    bias = 32 * 16  # buckets x attention heads
    assert sum(p.numel() for p in head.parameters()) == 25_192_448 + bias


def test_what_is_bound_is_a_value(spec: ExtraLayers) -> None:
    is_a_value(spec)


def test_rows_are_means_of_the_blocks_subwords(spec: ExtraLayers) -> None:
    head, tokens = build(spec), states()
    new = head.blocks(tokens.hidden, tokens.lengths)
    zero = torch.zeros(DIM)
    expected = torch.stack([new[1], zero, new[2], new[[3, 4, 6]].mean(0), zero])
    torch.testing.assert_close(head(tokens), expected)


def test_the_whole_window_matters(spec: ExtraLayers) -> None:
    """Row 2 is made of subword 2 alone, yet depends on subword 0 of its window, not on 5."""
    head, tokens = build(spec), states()
    for changed, matters in ((0, True), (5, False)):
        hidden = tokens.hidden.clone()
        hidden[changed] += torch.linspace(-1, 2, DIM)  # a LayerNorm would undo a constant
        found = head(states(hidden=hidden))[2]
        assert (not torch.equal(found, head(tokens)[2])) == matters


def test_nothing_to_read(spec: ExtraLayers) -> None:
    head, none = build(spec), torch.zeros(0, dtype=torch.int64)
    tokens = TokenStates(hidden=torch.zeros(0, DIM), lengths=none, source=none, row=none, n_rows=2)
    assert torch.equal(head(tokens), torch.zeros(2, DIM))


def test_float16_states_and_autocast(spec: ExtraLayers) -> None:
    head, tokens = build(spec), states(hidden=states().hidden.half())
    exact = head(states(hidden=tokens.hidden.float()))
    assert torch.equal(head(tokens), exact)
    with torch.autocast("cpu", torch.bfloat16):
        fast = head(tokens)
    assert fast.dtype == torch.float32
    assert (fast - exact).norm() < 0.02 * exact.norm()


def test_wrong_input(spec: ExtraLayers) -> None:
    head = build(spec)
    with pytest.raises(OptionError, match="found word rows"):
        head(torch.zeros(3, 1, DIM))
    with pytest.raises(OptionError, match="width 16; found 15"):
        head(states(hidden=torch.zeros(8, 15)))
    with pytest.raises(OptionError, match=r"one layer, found layers \(11, 12\)"):
        spec.build((11, 12), DIM, torch.Generator())
    with pytest.raises(OptionError, match="width 24, but the backbone's configuration says 16"):
        spec.build((12,), 24, torch.Generator())


def test_refuses() -> None:
    with pytest.raises(OptionError, match="n must be 1 or more, found 0"):
        ExtraLayers(n=0)
    with pytest.raises(OptionError, match="call bind"):
        build(ExtraLayers(n=2))
