"""What the hardware can do: native bfloat16, usable cores, free memory.

The kernel's own figure of free memory is that of the whole machine; a process that believes it in
a container of a few gigabytes is killed. So what the control groups (a container, a batch job)
leave counts too. Torch is imported inside the functions, so that ``probekit --help`` stays free of
it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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


class _Files(NamedTuple):
    """Names of one version of the kernel's control groups."""

    limit: str
    used: str
    cached: tuple[str, ...]


_VERSION_1 = _Files(
    "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")
)
_VERSION_2 = _Files("memory.max", "memory.current", ("active_file", "inactive_file"))


def memory_left(
    groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Return the bytes that the tightest group above this process leaves; None without a limit.

    What the group's files hold in the page cache counts as free, as it does in the kernel's own
    figure for the machine: it is dropped when memory is wanted.

    Args:
        groups: the kernel's list of the process's groups.
        root: where control groups are mounted.
    """
    if not groups.exists():  # not Linux
        return None
    above: list[tuple[Path, _Files]] = []
    for line in groups.read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        group = Path(path.lstrip("/"))
        parts = (group, *group.parents)
        if controllers == "":
            above += [(root / part, _VERSION_2) for part in parts]
        elif "memory" in controllers.split(","):
            above += [(root / "memory" / part, _VERSION_1) for part in parts]
    left: list[int] = []
    for folder, files in above:
        limit = folder / files.limit
        if not limit.is_file() or (most := limit.read_text(encoding="utf-8").strip()) == "max":
            continue
        used = int((folder / files.used).read_text(encoding="utf-8"))
        lines = (folder / "memory.stat").read_text(encoding="utf-8").splitlines()
        stat = dict(line.split() for line in lines)
        cached = sum(int(stat[name]) for name in files.cached)
        left.append(max(int(most) - used + cached, 0))
    return min(left, default=None)
