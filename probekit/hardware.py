"""What the hardware can do: native bfloat16, usable cores, free memory.

Torch is imported inside the functions, so that ``probekit --help`` stays free of it.
"""

from __future__ import annotations

import os


def native_bfloat16(device: str = "cpu") -> bool:
    """Say whether ``device`` multiplies bfloat16 in hardware.

    True on CUDA devices of compute capability 8.0 or more and on CPUs with AVX512-BF16 or AMX;
    elsewhere bfloat16 is emulated, and slower than float32.

    Args:
        device: a torch device string such as ``"cpu"`` or ``"cuda:1"``.
    """
    import torch

    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.is_available() and torch.cuda.get_device_capability(device)[0] >= 8
    if kind != "cpu":
        return False
    cpu = torch.cpu
    return cpu._is_avx512_bf16_supported() or cpu._is_amx_tile_supported()


def usable_cores() -> int:
    """Return the number of cores that this process may use (at least 1)."""
    if hasattr(os, "sched_getaffinity"):
        return max(len(os.sched_getaffinity(0)), 1)
    return os.cpu_count() or 1


def available_memory() -> int:
    """Return the bytes of memory that are free for use now."""
    import psutil

    return int(psutil.virtual_memory().available)


def pick_device(name: str) -> str:
    """Turn ``--device`` into a torch device string; ``auto`` is CUDA where there is some."""
    if name != "auto":
        return name
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
