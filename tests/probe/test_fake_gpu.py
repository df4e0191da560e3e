"""Every head, normalisation and decoder on a GPU that is not there: devices, dtypes and shapes.

What asks for numbers (the lengths of sentences, of a CRF's or of new layers') runs in
`tests.train.test_pretended_gpu`.
"""

from contextlib import contextmanager

import pytest
import torch

from probekit.probe.decoders import CRF
from probekit.probe.heads import HEADS
from probekit.probe.normalization import NORMALIZATIONS
from probekit.testing import normalization_checks as checks
from probekit.testing.head_checks import DIM, LAYERS, ROWS, away_from_start
from tests.fake_gpu import fake_gpu, gpu, on_fake_gpu
from tests.probe.decoders.cases import CLASSES, SPECS, WIDTH, build
from tests.probe.decoders.conftest import backbone as backbone
from tests.probe.normalization.cases import fit

ROW_HEADS = [name for name, spec in HEADS.items() if spec.reads == "rows"]


@contextmanager
def autocast():
    """Autocast of CUDA, which `torch.autocast` leaves out where there is none."""
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    torch.set_autocast_enabled("cuda", True)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)


def devices(*found):
    return {one.device.type for one in found if one is not None}


@pytest.mark.filterwarnings("ignore:PyTorch was compiled without cuDNN")
@pytest.mark.parametrize("name", ROW_HEADS)
def test_heads(name):
    head = away_from_start(HEADS[name]())
    with fake_gpu():
        there = on_fake_gpu(head)
        for dtype in (torch.float32, torch.bfloat16):
            z = gpu(len(LAYERS), ROWS, DIM, dtype=dtype).transpose(0, 1)
            h, weights = there(z), there.layer_weights(z)
            with autocast():
                cast = there(z)
            weight, bias = gpu(CLASSES, head.width), gpu(CLASSES)
            parts = there.layer_parts(z, weight) if there.additive else None
            assert devices(h, cast, there.project(z, weight, bias), parts) == {"cuda"}
            if weights.raw is not None:  # what is known without rows is the host's
                assert devices(weights.weights, weights.raw) == {"cuda"}
            assert h.shape == cast.shape == (ROWS, head.width) and h.dtype == torch.float32


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_normalizations(name):
    norm = fit(name)
    with fake_gpu():
        z = gpu(len(norm.layers), ROWS, checks.DIM, dtype=torch.bfloat16).transpose(0, 1)
        assert devices(on_fake_gpu(norm)(z)) == {"cuda"}


@pytest.mark.parametrize("name", [n for n, spec in SPECS.items() if not isinstance(spec, CRF)])
def test_decoders(name, backbone):
    decoder = build(SPECS[name], backbone).eval()
    numbers = decoder.n_classes == 1
    with fake_gpu():
        there, offsets = on_fake_gpu(decoder), gpu(3, dtype=torch.int64)
        targets = gpu(ROWS, dtype=torch.float32 if numbers else torch.int64)
        for h in (gpu(ROWS, WIDTH), gpu(ROWS, WIDTH, dtype=torch.bfloat16)):
            with autocast():
                cast = there(h)
            logits = there(h)
            found = [logits, cast, there.predict(logits, offsets)]
            found += [there.row_losses(logits, targets, offsets), there.loss(logits, targets)]
            assert devices(*found, there.log_probabilities(logits, offsets)) == {"cuda"}


def test_two_devices_are_refused():
    head = away_from_start(HEADS["p32"]())
    with fake_gpu():
        z = gpu(len(LAYERS), ROWS, DIM).transpose(0, 1)
        with pytest.raises(RuntimeError, match="cpu"):
            on_fake_gpu(head)(torch.zeros(z.shape))
