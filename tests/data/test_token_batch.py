"""Rows pooled through the batches equal rows read one example at a time; sums are in float32."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from probekit.data.batches import Picks, pool, token_batches
from probekit.data.texts import encode_words
from tests.data.samples import SENTENCES, tokenizer

PAD = 0


def _split(name, sentences):
    ids = [str(i) for i in range(len(sentences))]
    return encode_words(tokenizer(name), ids, sentences, max_length=14)


def _states(batch):
    """States that tell every (subword id, position, window length) apart, and padding."""
    time = torch.arange(batch.input_ids.shape[1]).expand_as(batch.input_ids)
    length = batch.lengths[:, None].expand_as(batch.input_ids)
    states = torch.stack([batch.input_ids, time, length], dim=-1).double()
    states[time >= length] = torch.nan  # padding must never be read
    return states


def _expected(split, start, stop, pooling):
    """Words and tokens of the examples, in a loop over windows."""
    windows = []
    for w in range(len(split.window_lengths)):
        ids = split.subwords[split.window_bounds[w] : split.window_bounds[w + 1]]
        windows.append([(int(token), t, len(ids)) for t, token in enumerate(ids)])
    inside = range(split.example_windows[start], split.example_windows[stop])
    tokens = [state for w in inside for state in windows[w]]
    words = []
    for row in range(split.example_words[start], split.example_words[stop]):
        if not split.valid[row]:
            words.append((0, 0, 0))
            continue
        window, first, last = (column[row] for column in split.word_places)
        mine = windows[window][first : last + 1]
        picked = {"first": mine[:1], "last": mine[-1:], "mean": mine}[pooling]
        words.append(tuple(np.mean(picked, axis=0)))
    return {"words": words, "tokens": tokens}


@settings(max_examples=45)
@given(
    name=st.sampled_from(["bert", "gpt2", "llama"]), sentences=SENTENCES, budget=st.integers(1, 90),
    pooling=st.sampled_from(["first", "last", "mean"]), data=st.data(),
)  # fmt: skip
def test_rows_land_in_data_set_order(name, sentences, budget, pooling, data):
    split = _split(name, sentences)
    stop = data.draw(st.integers(0, len(sentences)))
    start = data.draw(st.integers(0, stop))
    expected = _expected(split, start, stop, pooling)
    out = {key: torch.zeros(len(rows), 3, dtype=torch.float64) for key, rows in expected.items()}
    options = {"batch_tokens": budget, "pad_id": PAD, "pooling": pooling}
    for batch in token_batches(split, start, stop, **options):
        size = batch.input_ids.numel()
        assert size <= budget or len(batch.input_ids) == 1
        assert batch.lengths.max() == batch.input_ids.shape[1]
        for key, picks in batch.picks.items():
            pool(_states(batch), picks, out[key])
    for key, rows in expected.items():
        wanted = torch.tensor(rows, dtype=torch.float64).reshape(-1, 3)
        torch.testing.assert_close(out[key], wanted, rtol=1e-6, atol=0)


def test_padding_uses_the_given_id_and_arrays_are_those_asked_for():
    split = _split("bert", [["EU"], ["EU", "rejects", "German", "call"]])
    options = {"batch_tokens": 9999, "pad_id": 7, "pooling": "first", "arrays": ("words",)}
    (batch,) = token_batches(split, 0, 2, **options)
    assert set(batch.picks) == {"words"}
    longest, short = batch.input_ids.tolist()
    assert batch.lengths.tolist() == [len(longest), 4]
    assert short[4:] == [7] * (len(longest) - 4)


def test_batches_depend_on_their_examples_alone():
    sentences = [["call"] * n for n in (3, 9, 1, 30, 4, 4, 2)]
    options = {"batch_tokens": 60, "pad_id": PAD, "pooling": "mean"}
    inside = list(token_batches(_split("bert", sentences), 2, 6, **options))
    alone = list(token_batches(_split("bert", sentences[2:6]), 0, 4, **options))
    assert len(inside) == len(alone) > 1
    for left, right in zip(inside, alone, strict=True):
        assert torch.equal(left.input_ids, right.input_ids)
        for key in ("words", "tokens"):
            assert torch.equal(left.picks[key].source, right.picks[key].source)
            assert torch.equal(left.picks[key].target, right.picks[key].target)


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
    picks = Picks(torch.arange(300), torch.tensor([0]), counts=torch.tensor([300]))
    mean = torch.zeros(1, 2)
    pool(values[None], picks, mean)
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
