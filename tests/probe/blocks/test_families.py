"""Every family's own last block, taken over, gives the family's own states."""

import pytest
import torch

from probekit.probe.heads.extra_layers import FAMILIES, BlockStack, build_blocks
from tests.probe.blocks.families import (
    CONFIGS,
    DIM,
    block_list,
    last_block,
    lend_last_block,
    tiny_model,
)

LENGTHS = torch.tensor([5, 17, 1, 17, 9])
OF_A_KIND = ("bert", "deberta-v2", "gemma3_text", "gpt2", "llama", "mpnet")
"""Families whose blocks differ: in masks, in positions, in what lies beside them."""
BESIDE = {
    "mpnet": {"encoder.relative_attention_bias.weight"},
    "deberta-v2": {
        "encoder.rel_embeddings.weight", "encoder.LayerNorm.weight", "encoder.LayerNorm.bias"
    },
}  # fmt: skip
"""Parameters of a family's blocks that lie beside them."""


def fresh(family: str) -> BlockStack:
    config = tiny_model(family).config.to_dict()
    return build_blocks(config, 2, torch.Generator().manual_seed(0))


def states(seed: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(int(LENGTHS.sum()), DIM, generator=generator)


def test_every_family_is_tested() -> None:
    assert CONFIGS.keys() == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_own_last_block_gives_own_last_states_and_nothing_else_is_there(family: str) -> None:
    model = tiny_model(family)
    stack = build_blocks(model.config.to_dict(), 1, torch.Generator())
    lend_last_block(model, stack)
    prefix, _ = block_list(stack.model)
    beside = {n for n, _ in stack.model.named_parameters() if not n.startswith(f"{prefix}.")}
    assert beside == BESIDE.get(family, set())
    before, after = last_block(model, LENGTHS)
    with torch.no_grad():
        found = stack(before, LENGTHS)
    torch.testing.assert_close(found, after, rtol=1e-5, atol=1e-5)
    assert (before - after).abs().max() > 0.1


@pytest.mark.parametrize("family", OF_A_KIND)
def test_gradient_reaches_every_parameter(family: str) -> None:
    stack = fresh(family)
    with torch.no_grad():  # away from biases of 0, where softmax gives keys no gradient
        for p in stack.parameters():
            p.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(1)), alpha=0.3)
    pull = states(seed=4)
    (stack(states(), LENGTHS) * pull).sum().backward()
    for name, parameter in stack.named_parameters():
        assert parameter.grad is not None, name
        # A key's bias adds the same to every score of a query, which softmax cancels.
        cancels = name.endswith(("key.bias", "attn.k.bias", "k_lin.bias", "k_proj.bias"))
        assert cancels or parameter.grad.abs().max() > 1e-6, name


@pytest.mark.parametrize("family", OF_A_KIND)
def test_windows_do_not_see_each_other(family: str) -> None:
    stack, hidden = fresh(family), states()
    with torch.no_grad():
        together = stack(hidden, LENGTHS).split(LENGTHS.tolist())
        for part, alone in zip(hidden.split(LENGTHS.tolist()), together, strict=True):
            found = stack(part, torch.tensor([len(part)]))
            torch.testing.assert_close(found, alone, rtol=1e-5, atol=1e-5)
