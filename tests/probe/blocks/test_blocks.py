"""Blocks of every family: built, equal to the family's own, over windows in groups."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from probekit.errors import OptionError
from probekit.probe.heads.extra_layers import (
    FAMILIES,
    BlockStack,
    build_blocks,
    essential,
    group_by_length,
)
from probekit.testing.promises import moved_from_start
from tests.probe.blocks.families import (
    CONFIGS,
    DIM,
    block_list,
    last_block,
    lend_last_block,
    tiny_model,
)


def config(family: str = "bert") -> dict:
    return tiny_model(family).config.to_dict()


def build(family: str = "bert", n: int = 2, seed: int = 0) -> BlockStack:
    return build_blocks(config(family), n, torch.Generator().manual_seed(seed))


def states(length: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(length, DIM, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("family", ["bert", "mpnet", "llama"])
def test_the_generator_decides(family: str) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = build(family).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    second, third = build(family).state_dict(), build(family, seed=1).state_dict()
    for name, value in first.items():
        assert torch.equal(value, second[name])
        assert value.unique().numel() == 1 or not torch.equal(value, third[name]), name


def test_starts_as_the_family_does() -> None:
    given = config() | {"initializer_range": 0.5}
    _, blocks = block_list(build_blocks(given, 2, torch.Generator()))
    for name, parameter in blocks.named_parameters():
        if "LayerNorm.weight" in name:
            assert (parameter == 1).all()
        elif name.endswith("bias"):
            assert (parameter == 0).all()
        else:
            assert parameter.std().item() == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("lengths", [[], [0], [0, 15, 0], [15]])
def test_empty_windows(lengths: list[int]) -> None:
    hidden = states(sum(lengths))
    with torch.no_grad():
        found = build()(hidden, torch.tensor(lengths, dtype=torch.int64))
        expected = build()(hidden, torch.tensor([15])) if sum(lengths) else hidden
    assert torch.equal(found, expected)


@pytest.mark.parametrize("family", ["t5", "no-such-model"])
def test_other_families_are_refused(family: str) -> None:
    with pytest.raises(OptionError, match=f"'{family}' cannot lend its blocks; these can: bert,"):
        build_blocks({"model_type": family}, 1, torch.Generator())


def test_a_damaged_configuration_is_refused() -> None:
    with pytest.raises(OptionError, match="cannot read this bert backbone's configuration"):
        build_blocks(config() | {"hidden_size": "wide"}, 1, torch.Generator())


def test_essential_leaves_out_where_a_model_came_from() -> None:
    given = config()
    moved = given | {"_name_or_path": "/elsewhere", "transformers_version": "9", "dtype": "float16"}
    moved |= {"vocab_size": 77, "pad_token_id": 5, "use_cache": False, "return_dict": False}
    assert essential(moved) == essential(given)
    assert essential(given)["hidden_size"] == DIM


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
    stack = build(family)
    moved_from_start(stack)  # from biases of 0, where softmax gives keys no gradient
    pull = states(49, seed=4)
    (stack(states(49), LENGTHS) * pull).sum().backward()
    for name, parameter in stack.named_parameters():
        assert parameter.grad is not None, name
        # A key's bias adds the same to every score of a query, which softmax cancels.
        cancels = name.endswith(("key.bias", "attn.k.bias", "k_lin.bias", "k_proj.bias"))
        assert cancels or parameter.grad.abs().max() > 1e-6, name


@pytest.mark.parametrize("family", OF_A_KIND)
def test_windows_do_not_see_each_other(family: str) -> None:
    stack, hidden = build(family), states(49)
    with torch.no_grad():
        together = stack(hidden, LENGTHS).split(LENGTHS.tolist())
        for part, alone in zip(hidden.split(LENGTHS.tolist()), together, strict=True):
            found = stack(part, torch.tensor([len(part)]))
            torch.testing.assert_close(found, alone, rtol=1e-5, atol=1e-5)


CPU = torch.device("cpu")


@given(st.lists(st.integers(0, 40), max_size=30))
def test_every_subword_once(lengths: list[int]) -> None:
    groups = group_by_length(lengths, CPU)
    starts = torch.tensor([0, *lengths]).cumsum(0).tolist()
    seen = []
    for group in groups:
        flat = group.take.flatten()
        assert (flat >= 0).all() and (flat < sum(lengths)).all()
        seen += flat[group.real].tolist()
        for row in range(len(group.take)):
            length = int(group.mask[row].sum()) if group.mask is not None else len(group.take[row])
            window = starts.index(int(group.take[row, 0]))
            while not lengths[window]:  # an empty window starts where the next one does
                window += 1
            assert length == lengths[window]
            run = list(range(starts[window], starts[window] + length))
            assert group.take[row, :length].tolist() == run
            assert group.mask is None or (group.mask[row, :length] == 1).all()
    assert sorted(seen) == list(range(sum(lengths)))


@given(st.lists(st.integers(1, 500), min_size=1, max_size=40))
def test_padding_is_bounded(lengths: list[int]) -> None:
    for group in group_by_length(lengths, CPU):
        assert group.take.numel() - len(group.real) <= 64
        assert (group.mask is None) == (group.take.numel() == len(group.real))


def test_groups_are_bounded() -> None:
    groups = group_by_length([512] * 70 + [20_000, 20_000], CPU)
    assert [tuple(group.take.shape) for group in groups] == [
        (1, 20_000), (1, 20_000), (32, 512), (32, 512), (6, 512),
    ]  # fmt: skip
