"""Subwords to rows: means, deleted words, shared and unsorted sources."""

import torch

from probekit.probe.heads.token_inputs import TokenStates


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
