"""Devices are named as torch needs them."""

import pytest
import torch

from probekit.base.machine import pick_device
from probekit.errors import OptionError


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)


@pytest.mark.parametrize(
    ("asked", "found"),
    [("auto", "cuda:1"), ("cuda", "cuda:1"), ("cuda:0", "cuda:0"), ("cpu", "cpu")],
)
def test_cuda_has_a_number(two_gpus, asked, found):
    assert pick_device(asked) == found


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("cuda:2", "--device 'cuda:2': 2 CUDA devices are available"),
        ("gpu", "unknown --device 'gpu'. Write cpu, cuda or cuda:1"),
        ("mps", "--device mps has no float64"),
        ("meta", "--device 'meta' is not supported. Write cpu, cuda or cuda:1"),
        ("xpu:0", "--device 'xpu:0' is not supported"),
    ],
)
def test_what_is_no_device_is_refused(two_gpus, asked, message):
    with pytest.raises(OptionError, match=message):
        pick_device(asked)


def test_without_a_gpu_it_is_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto") == "cpu"
