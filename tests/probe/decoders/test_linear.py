"""The linear decoder and its dropout, against torch's own layers and against theory."""

import math

import pytest
import torch
from torch.nn import functional

from probekit.errors import OptionError
from probekit.probe.decoders import Linear


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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
