"""The contract of token heads as checks, and the door through which those of others come in."""

import torch
from torch import Tensor

from probekit.probe.token_heads.contract import TokenHeadSpec, TokenPool
from probekit.testing.promises import (
    Check,
    Contract,
    demand,
    demand_finite,
    demand_tensor,
    demand_texts,
    demand_value,
    global_numbers_untouched,
    seeded_generator,
)

LAYERS, DIM = 3, 8
BOUNDS = torch.tensor([0, 4, 4, 5, 17])
"""Of four texts, one of them without tokens."""


def build(spec: TokenHeadSpec) -> TokenPool:
    """Return a fresh module, away from its start."""
    with global_numbers_untouched():
        pool, generator = spec.build(LAYERS, DIM, seeded_generator()), seeded_generator(7)
    with torch.no_grad():
        for values in pool.parameters():
            values.add_(torch.randn(values.shape, generator=generator), alpha=0.2)
    return pool


def sample_tokens(dtype: torch.dtype = torch.float32) -> Tensor:
    """Return states of the tokens of all texts, layer by layer."""
    shape = LAYERS, int(BOUNDS[-1]), DIM
    return torch.randn(shape, generator=seeded_generator(1)).to(dtype)


def describes_itself(spec: TokenHeadSpec) -> None:
    """It states its name, source, summary and formula."""
    demand_texts(type(spec), "name", "source", "summary", "formula")


def is_a_value(spec: TokenHeadSpec) -> None:
    """Its dict form is JSON and rebuilds it; it is frozen, and refuses unknown options."""
    demand_value("token head", spec)


def trains_if_it_says_so(spec: TokenHeadSpec) -> None:
    """It has parameters if ``trains`` says so, and they have gradients."""
    pool = build(spec)
    demand(bool([*pool.parameters()]) == spec.trains, "its `trains` does not fit its parameters")
    if spec.trains:
        pool(sample_tokens(), BOUNDS).square().sum().backward()
        for name, values in pool.named_parameters():
            demand(values.grad is not None and bool(values.grad.any()), f"{name} has no gradient")


def makes_a_row_of_each_text(spec: TokenHeadSpec) -> None:
    """It makes rows of the width that it says, zeros of no tokens."""
    pool = build(spec)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        rows = pool(sample_tokens(dtype), BOUNDS)
        demand_tensor("rows", rows, (LAYERS, len(BOUNDS) - 1, pool.width), torch.float32)
        demand(not rows[:, 1].any(), "the row of a text without tokens is not zeros")
    nothing = pool(sample_tokens()[:, :0], torch.zeros(1, dtype=torch.int64))
    demand_tensor("rows of no texts", nothing, (LAYERS, 0, pool.width), torch.float32)


def reads_texts_apart(spec: TokenHeadSpec) -> None:
    """A text's row does not depend on the other texts, nor a layer's on the other layers."""
    pool, z = build(spec), sample_tokens()
    rows = pool(z, BOUNDS)
    alone = pool(z[:, 5:], torch.tensor([0, 12]))
    demand(torch.allclose(rows[:, 3:], alone, atol=1e-5), "a row depends on the texts before it")
    other = z.clone()
    other[0] = 0
    demand(torch.allclose(pool(other, BOUNDS)[1:], rows[1:], atol=1e-5), "a layer reads another")


def stands_large_values(spec: TokenHeadSpec) -> None:
    """A channel near 30,000 gives finite rows."""
    z = sample_tokens()
    z[:, ::3, 2] = 30_000
    demand_finite("a value", build(spec)(z, BOUNDS))


TOKEN_HEAD_CHECKS: tuple[Check[TokenHeadSpec], ...] = (
    describes_itself, is_a_value, trains_if_it_says_so, makes_a_row_of_each_text, reads_texts_apart,
    stands_large_values,
)  # fmt: skip
"""What holds for every token head."""


TOKEN_HEAD = Contract("token head", TokenHeadSpec, TOKEN_HEAD_CHECKS, built=True)
check_token_head = TOKEN_HEAD.check
