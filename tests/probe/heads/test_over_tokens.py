"""Heads that read tokens: subwords to rows, and a head with a token head in both orders."""

import json

import pytest
import torch

from probekit.errors import OptionError
from probekit.probe.heads import HEADS, head_from_json
from probekit.probe.heads.over_tokens import OverTokens
from probekit.probe.heads.token_inputs import TextTokens, TokenStates
from probekit.probe.token_heads import TOKEN_HEADS
from probekit.testing.promises import moved_from_start

LAYERS, DIM = (1, 2, 5), 8
BOUNDS = torch.tensor([0, 3, 3, 10])


@pytest.fixture
def tokens():
    z = torch.randn(len(LAYERS), int(BOUNDS[-1]), DIM, generator=torch.Generator().manual_seed(1))
    return TextTokens(states=z.transpose(0, 1), bounds=BOUNDS)


def made(head, token_head, order):
    spec = OverTokens(head=HEADS[head](), token_head=TOKEN_HEADS[token_head](order=order))
    module = spec.build(LAYERS, DIM, torch.Generator().manual_seed(2))
    return spec, moved_from_start(module).eval()


@pytest.mark.parametrize("token_head", ["max", "attention", "multimax"])
@pytest.mark.parametrize("head", ["mean", "p32", "attention-fusion", "concat", "dwatt"])
def test_tokens_first_is_the_head_over_rows(head, token_head, tokens):
    spec, module = made(head, token_head, "tokens-first")
    rows = module.pool(tokens.states.transpose(0, 1), BOUNDS)
    h = module(tokens)
    assert torch.equal(h, module.head(rows.transpose(0, 1)))
    assert h.shape == (3, module.width)
    values = sum(values.numel() for of in module.parameter_groups().values() for values in of)
    assert values == sum(values.numel() for values in module.parameters())
    assert spec.name == head and spec.learning_rate == HEADS[head].learning_rate


@pytest.mark.parametrize("token_head", ["max", "attention", "multimax"])
@pytest.mark.parametrize("head", ["mean", "p32", "attention-fusion", "concat"])
def test_layers_first_is_the_token_head_over_what_is_fused(head, token_head, tokens):
    _, module = made(head, token_head, "layers-first")
    fused = module.head(tokens.states)
    assert torch.equal(module(tokens), module.pool(fused[None], BOUNDS)[0])


@pytest.mark.parametrize("order", ["tokens-first", "layers-first"])
def test_layers_are_weighed_as_the_head_weighs_them(order, tokens):
    _, module = made("attention-fusion", "max", order)
    weights = module.layer_weights(tokens).weights
    if order == "layers-first":
        of_tokens = module.head.layer_weights(tokens.states).weights
        expected = torch.stack(
            [of_tokens[:3].mean(0), torch.full((3,), 1 / 3), of_tokens[3:].mean(0)]
        )
    else:
        rows = module.pool(tokens.states.transpose(0, 1), BOUNDS).transpose(0, 1)
        expected = module.head.layer_weights(rows).weights
    torch.testing.assert_close(weights, expected)
    _, shared = made("p32", "max", order)
    assert torch.equal(shared.layer_weights().weights, shared.head.layer_weights().weights)


@pytest.mark.parametrize("order", ["tokens-first", "layers-first"])
def test_its_dict_form_brings_it_back(order):
    spec, module = made("p32", "attention", order)
    again = head_from_json(json.loads(json.dumps(spec.to_json())))
    assert again == spec
    again.build(LAYERS, DIM, torch.Generator()).load_state_dict(module.state_dict())


def test_a_head_that_reads_tokens_itself_is_refused():
    with pytest.raises(OptionError, match="extra-layers reads the tokens of texts itself"):
        made("extra-layers", "max", "tokens-first")


def test_rows_are_refused(tokens):
    _, module = made("mean", "max", "tokens-first")
    with pytest.raises(OptionError, match="reads the tokens of texts"):
        module(tokens.states)
    with pytest.raises(OptionError, match="reads word rows"):
        module.head(tokens)


def states(source: list[int], row: list[int], n_rows: int, **changes: object) -> TokenStates:
    hidden = torch.arange(12.0).reshape(6, 2)
    parts = {
        "hidden": hidden, "lengths": torch.tensor([4, 2]),
        "source": torch.tensor(source, dtype=torch.int64),
        "row": torch.tensor(row, dtype=torch.int64), "n_rows": n_rows,
    }  # fmt: skip
    return TokenStates(**(parts | changes))


def test_rows_are_means_of_their_sources_and_deleted_words_are_zero() -> None:
    tokens = states([0, 1, 2, 5], [0, 0, 0, 1], 2)
    expected = torch.stack([tokens.hidden[:3].mean(0), tokens.hidden[5]])
    assert torch.equal(tokens.pool(tokens.hidden), expected)
    tokens = states([3], [1], 3)
    expected = torch.stack([torch.zeros(2), tokens.hidden[3], torch.zeros(2)])
    assert torch.equal(tokens.pool(tokens.hidden), expected)
    assert torch.equal(states([], [], 2).pool(tokens.hidden), torch.zeros(2, 2))
    assert states([], [], 0).pool(tokens.hidden).shape == (0, 2)


def test_sums_are_float32() -> None:
    big = torch.full((6, 2), 40_000.0, dtype=torch.float16)
    pooled = states([0, 1], [0, 0], 1).pool(big)
    assert pooled.dtype == torch.float32
    assert (pooled == 40_000).all()


def test_gradient_is_shared_by_the_sources() -> None:
    tokens = states([0, 1, 4], [0, 0, 2], 3)
    hidden = tokens.hidden.clone().requires_grad_()
    tokens.pool(hidden).sum().backward()
    expected = torch.tensor([0.5, 0.5, 0, 0, 1, 0]).unsqueeze(1).expand(6, 2)
    assert torch.equal(hidden.grad, expected)
