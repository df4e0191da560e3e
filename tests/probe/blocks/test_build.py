"""Building blocks: seeds, first weights, empty windows, what is refused."""

import pytest
import torch

from probekit.errors import OptionError
from probekit.probe.heads.extra_layers import BlockStack, build_blocks, essential
from tests.probe.blocks.families import DIM, block_list, tiny_model


def config(family: str = "bert") -> dict:
    return tiny_model(family).config.to_dict()


def build(family: str = "bert", n: int = 2, seed: int = 0) -> BlockStack:
    return build_blocks(config(family), n, torch.Generator().manual_seed(seed))


def states() -> torch.Tensor:
    return torch.randn(15, DIM, generator=torch.Generator().manual_seed(5))


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
    stack = build_blocks(given, 2, torch.Generator().manual_seed(0))
    _, blocks = block_list(stack)
    for name, parameter in blocks.named_parameters():
        if "LayerNorm.weight" in name:
            assert (parameter == 1).all()
        elif name.endswith("bias"):
            assert (parameter == 0).all()
        else:
            assert parameter.std().item() == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("lengths", [[], [0], [0, 15, 0], [15]])
def test_empty_windows(lengths: list[int]) -> None:
    hidden = states()[: sum(lengths)]
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
