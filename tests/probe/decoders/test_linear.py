"""The linear decoder and its dropout, against torch's own layers and against theory."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from probekit.errors import OptionError
from probekit.probe.decoders import Linear
from probekit.probe.decoders.contract import dropout, dropout_mask
from probekit.testing.promises import seeded_generator as generator


def test_equals_torch() -> None:
    decoder = Linear().build(6, 3, generator()).eval()
    reference = torch.nn.Linear(6, 3)
    reference.load_state_dict(decoder.state_dict())
    h, gold = torch.randn(10, 6, generator=generator(1)), torch.arange(10) % 3
    gold[4] = -100
    logits = decoder(h)
    torch.testing.assert_close(logits, reference(h))
    expected = functional.cross_entropy(logits, gold)
    torch.testing.assert_close(decoder.loss(logits, gold), expected)
    assert torch.equal(decoder.predict(logits), logits.argmax(1))


def test_starts_as_torch_would() -> None:
    decoder = Linear().build(400, 50, generator())
    for parameter in decoder.parameters():
        assert 0.9 / math.sqrt(400) < parameter.abs().max() <= 1 / math.sqrt(400)
    assert decoder.weight.std().item() == pytest.approx(1 / math.sqrt(1200), rel=0.05)


@pytest.mark.parametrize("rate", [-0.1, 1.0, math.nan])
def test_refuses_a_rate_outside_its_range(rate: float) -> None:
    with pytest.raises(OptionError, match="dropout"):
        Linear(dropout=rate)


@pytest.mark.parametrize("rate", [0.003, 0.5, 0.9])
def test_as_many_are_dropped_as_the_rate_says(rate):
    mask = dropout_mask(torch.empty(1000, 1001), rate, generator())
    dropped = float((mask == 0).double().mean())
    deviation = (rate * (1 - rate) / mask.numel()) ** 0.5
    assert abs(dropped - rate) < 5 * deviation + 2**-17
    (scale,) = mask[mask != 0].unique().tolist()
    assert scale == pytest.approx(1 / (1 - rate), rel=1e-3)
    assert float(mask.double().mean()) == pytest.approx(1, abs=5 * deviation / (1 - rate))


def test_elements_are_independent():
    # Four elements come of one number: none of the four places may know of another, or be special.
    mask = dropout_mask(torch.empty(2**18, 4), 0.5, generator())
    places = torch.cat([mask[:-1], mask[1:]], 1).t()
    correlations = torch.corrcoef(places)
    assert float((correlations - torch.eye(8)).abs().max()) < 0.012
    assert float((mask.mean(0) - 1).abs().max()) < 0.012


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (3, 3), (5, 7)])
def test_any_shape_and_dtype(shape, dtype):
    x = torch.ones(shape, dtype=dtype)
    out = dropout(x, 0.3, generator())
    assert out.shape == x.shape
    assert out.dtype == x.dtype


def test_masks_come_from_the_generator_alone():
    like = torch.empty(50, 9)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = dropout_mask(like, 0.2, generator(3))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, dropout_mask(like, 0.2, generator(3)))
    assert not torch.equal(first, dropout_mask(like, 0.2, generator(4)))
    same = generator(3)
    dropout_mask(like, 0.2, same)
    assert not torch.equal(first, dropout_mask(like, 0.2, same))


def test_masks_are_the_same_on_every_machine():
    twister = np.random.RandomState(7)
    words = twister.randint(2**32, size=2 * 10, dtype=np.uint64).reshape(10, 2)
    bits = (words[:, 0] << np.uint64(32) | words[:, 1]).view(np.int16).reshape(4, 10)
    mask = dropout_mask(torch.empty(4, 10), 0.25, generator(7))
    expected = np.where(bits >= -(2**14), 4 / 3, 0.0)
    np.testing.assert_allclose(mask.numpy(), expected, rtol=1e-6)


def test_a_rate_needs_a_generator():
    x = torch.ones(2, 2)
    assert dropout(x, 0.0, None) is x
    with pytest.raises(OptionError, match=r"pass generator=, or call \.eval\(\)"):
        dropout(x, 0.5, None)
