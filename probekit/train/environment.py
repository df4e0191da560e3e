"""What computed a run: for its record, and no part of its key."""

import platform
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import torch

from probekit.base.machine.hardware import native_bfloat16

_LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "transformers")


@lru_cache
def describe_environment(device: str) -> dict[str, Any]:
    """Return device, threads, dtypes and versions.

    Args:
        device: what computes, such as ``cpu`` or ``cuda:0``.
    """
    of_cuda = device.startswith("cuda")
    return {
        "device": torch.cuda.get_device_name(device) if of_cuda else device,
        "threads": torch.get_num_threads(),
        "dtype": "float32",
        "large_heads": "bfloat16" if native_bfloat16(device) else "float32",
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
    }
