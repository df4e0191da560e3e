"""Pooling equals a plain loop, in every dtype, and sums in float32."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from probekit.data.batches import Picks, pool, segment_mean

HALF = torch.bfloat16


@pytest.mark.parametrize(("computed", "stored"), [(HALF, torch.float32), (torch.float32, HALF)])
def test_one_position_per_row(computed, stored):
    hidden = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0)).to(computed)
    picks = Picks(source=torch.tensor([14, 0, 7]), target=torch.tensor([2, 5, 0]))
    out = torch.full((7, 4), 9.0, dtype=stored)
    pool(hidden, picks, out)
    expected = torch.full((7, 4), 9.0, dtype=stored)
    for source, target in [(14, 2), (0, 5), (7, 0)]:
        expected[target] = hidden[source // 5, source % 5].to(stored)
    assert torch.equal(out, expected)


@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_mean_equals_a_loop(counts, seed):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(4, 6, 5, generator=generator)
    source = torch.randint(24, (sum(counts),), generator=generator)
    target = torch.randperm(10, generator=generator)[: len(counts)]
    out = torch.zeros(10, 5)
    pool(hidden, Picks(source=source, target=target, counts=torch.tensor(counts)), out)
    expected = torch.zeros(10, 5)
    for picks, row in zip(source.split(counts), target, strict=True):
        expected[row] = sum(hidden.reshape(24, 5)[p] for p in picks) / len(picks)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_are_float32(dtype):
    # 300 x 300 overflows float16, and bfloat16 stops counting single steps at 256
    values = torch.full((300, 2), 300.0 if dtype == torch.float16 else 1.0, dtype=dtype)
    mean = segment_mean(values, torch.tensor([300]))
    assert mean.dtype == torch.float32
    assert torch.equal(mean, values[:1].float())


@pytest.mark.parametrize("counts", [None, torch.empty(0, dtype=torch.int64)])
def test_no_picks_write_nothing(counts):
    none = torch.empty(0, dtype=torch.int64)
    out = torch.ones(2, 4)
    pool(torch.randn(1, 3, 4), Picks(source=none, target=none, counts=counts), out)
    assert torch.equal(out, torch.ones(2, 4))


@pytest.mark.gpu
@pytest.mark.parametrize("counts", [None, torch.tensor([1, 2])])
def test_states_on_a_gpu_reach_a_buffer_in_memory(counts):
    source = torch.tensor([4, 1, 2] if counts is not None else [4, 1])
    picks = Picks(source=source, target=torch.tensor([1, 0]), counts=counts)
    hidden = torch.randn(2, 3, 4)
    expected, out = torch.zeros(3, 4), torch.zeros(3, 4)
    pool(hidden, picks, expected)
    pool(hidden.cuda(), picks.to(torch.device("cuda"), out.device), out)
    torch.testing.assert_close(out, expected)
