"""What the hardware can do: native bfloat16, usable cores, free memory.

Torch is imported inside the functions, so that ``probekit --help`` stays free of it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from probekit.base.machine.containers import memory_left
from probekit.errors import OptionError

if TYPE_CHECKING:
    import torch


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
    """Return the bytes of memory that are free for use now, within a container's limit."""
    import psutil

    machine = int(psutil.virtual_memory().available)
    left = memory_left()
    return machine if left is None else min(machine, left)


def free_memory(device: torch.device) -> int:
    """Return the bytes that are free on a device now."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return available_memory()


def pick_device(name: str) -> str:
    """Turn ``--device`` into a torch device string; ``auto`` is CUDA where there is some.

    A CUDA device always has its number: which one is meant without it depends on the thread.

    Raises:
        OptionError: neither a CPU nor a CUDA device, or this machine has none of that number.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise OptionError(f"--device {name!r} is unknown. Write cpu, cuda or cuda:1.") from None
    if device.type == "mps":
        raise OptionError("--device mps has no float64, in which sums are taken. Use cpu.")
    if device.type not in ("cpu", "cuda"):
        raise OptionError(f"--device {name!r} is not supported. Write cpu, cuda or cuda:1.")
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        raise OptionError(f"--device {name!r}: {count} CUDA devices are available. Use cpu.")
    if device.type == "cuda" and ":" not in name:
        return f"cuda:{torch.cuda.current_device()}"
    return name
