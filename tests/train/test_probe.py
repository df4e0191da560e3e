"""A head and its decoder together: in bfloat16, every number of rows is one of few."""

import numpy as np
import pytest
import torch

import probekit.train.member as module
from probekit.base.numbers import torch_generator
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.train.member import Probe

LAYERS, DIM, CLASSES = (1, 2, 3), 16, 5


def probe_of(head: str = "dwatt", decoder: str = "linear") -> Probe:
    built = HEADS[head]().build(LAYERS, DIM, torch_generator(0, "head"))
    own = DECODERS[decoder]().build(built.width, CLASSES, torch_generator(0, "decoder"))
    return Probe(built, own)


@pytest.fixture
def in_bfloat16(monkeypatch):
    """Let small probes count as heavy, and bfloat16 as native."""
    monkeypatch.setattr(module, "_HEAVY", 1)
    monkeypatch.setattr(module, "native_bfloat16", lambda device: True)


def rows_seen(probe: Probe) -> list[int]:
    seen: list[int] = []
    probe.head.register_forward_pre_hook(lambda head, args: seen.append(len(args[0])))
    return seen


def z_of(rows: int) -> torch.Tensor:
    layers = torch.randn(len(LAYERS), rows, DIM, generator=torch_generator(rows, "z"))
    return layers.transpose(0, 1)


def test_a_heavy_probe_sees_few_numbers_of_rows(in_bfloat16, monkeypatch):
    probe = probe_of()
    seen = rows_seen(probe)
    for rows in range(70):
        assert probe.logits(z_of(rows), torch_generator(0, "mask")).shape == (rows, CLASSES)
    assert set(seen) == {0, 32, 64, 96}
    monkeypatch.undo()  # so that it is a light one
    light = probe_of()
    seen = rows_seen(light)
    light.logits(z_of(33), torch_generator(0, "mask"))
    assert seen == [33]


@pytest.mark.parametrize("head", ["concat", "depth-lstm", "dwatt"])
def test_filling_up_changes_neither_logits_nor_gradients(in_bfloat16, monkeypatch, head):
    found = []
    for multiple in (1, 32):
        monkeypatch.setattr(module, "MULTIPLE", multiple)
        probe = probe_of(head).eval()
        seen = rows_seen(probe)
        logits = probe.logits(z_of(37))
        probe.decoder.loss(logits, torch.arange(37) % CLASSES, torch.tensor([0, 37])).backward()
        found.append((logits, {name: p.grad for name, p in probe.named_parameters()}))
        assert seen == [37 if multiple == 1 else 64]
    (logits, gradients), (filled, others) = found
    torch.testing.assert_close(filled, logits, rtol=2e-2, atol=2e-3)
    for name, gradient in gradients.items():
        assert (gradient is None) == (others[name] is None)
        if gradient is not None:
            torch.testing.assert_close(others[name], gradient, rtol=5e-2, atol=2e-3)


@pytest.mark.parametrize("decoder", ["linear", "crf"])
def test_a_prediction_is_made_for_every_row_and_no_other(in_bfloat16, decoder):
    probe = probe_of("concat", decoder).eval()
    found = probe.predict(z_of(37), torch.tensor([0, 20, 37]))
    assert found.shape == (37,)
    np.testing.assert_array_less(found, CLASSES)
