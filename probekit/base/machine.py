"""The machine: its devices, cores and memory, and this process on it.

The kernel's own figure of free memory is that of the whole machine; a process that believes it in
a container of a few gigabytes is killed. So what the control groups (a container, a batch job)
leave counts too. Torch is imported inside the functions, so that ``probekit --help`` stays free of
it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import psutil

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
        raise OptionError(f"unknown --device {name!r}. Write cpu, cuda or cuda:1.") from None
    if device.type == "mps":
        raise OptionError("--device mps has no float64, which sums need. Use cpu.")
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


_ROOM = 128 * 2**20
"""Bytes that a process may grow by, beyond what it needs, before its free memory is looked for."""

KERNELS = 128
"""Compiled kernels that are kept: a batch of a backbone or a step of dwatt needs up to twenty, and
most steps have one of some six shapes."""

KERNEL_SETTINGS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""Environment variables for how many oneDNN keeps, and torch's cache above it: a kernel that one of
them drops stays in memory while the other holds it."""

MEMORY_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""Environment variables for what glibc gives back."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""glibc's numbers of the two options (mallopt(3))."""

_LARGE = 64 * 2**20
"""Bytes from which a block is asked from the system, and given back, by itself."""

_KEPT = 256 * 2**20
"""Bytes that may lie free at the end of the process's memory."""

STOP = signal.SIGUSR1
"""What asks a worker to stop and hand over what it has finished; Ctrl-C reaches all processes."""


def keep_few_kernels() -> None:
    """Let few compiled kernels be kept, unless the user has set how many.

    oneDNN compiles one for every shape of a product in bfloat16, some hundred KiB each, and by
    default 1,024 are kept. A batch of texts seldom has the shape of an earlier one, so most of a
    backbone's kernels serve once. Call it before the first such product: the settings are read
    once. Child processes inherit them.
    """
    for name in KERNEL_SETTINGS:
        os.environ.setdefault(name, str(KERNELS))


def keep_free_memory() -> None:
    """Let glibc keep what a step of training frees for the next one, unless the user has set it.

    By default it gives the free end of its memory back to the system after every large gradient,
    unless something in use happens to lie behind it, and the next step asks for it again, page by
    page. Blocks beyond 64 MiB go back at once, as before. Where there is no glibc, nothing is done.
    """
    set_option = _glibc("mallopt")
    if set_option is None or any(name in os.environ for name in MEMORY_SETTINGS):
        return
    for option, value in ((_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _KEPT)):
        set_option(option, value)


@dataclass(eq=False)
class Heap:
    """Keeps a process from growing by memory that nothing uses.

    A model that runs over batches of many shapes asks for aligned memory of many sizes, which
    glibc (seen with 2.36; its bug 14581) seldom serves from what was freed: it asks the system for
    more, and the process grows as long as it runs (``benchmarks/extraction_memory.py``). Growth is
    read off the memory of the whole process, mapped files left out. Where there is no glibc,
    nothing is done.
    """

    _needed: int | None = field(default=None, init=False)

    def trim(self) -> None:
        """Give free memory back, if the process has grown a good deal; call it before each batch.

        What it has at the call after that, one batch later, counts as needed.
        """
        give_back = _glibc("malloc_trim")
        if give_back is None:
            return
        memory = psutil.Process().memory_info()
        held = memory.rss - memory.shared
        if self._needed is None:
            self._needed = held
        elif held - self._needed >= _ROOM:
            give_back(0)
            self._needed = None


@cache
def _glibc(name: str) -> Callable[..., int] | None:
    """Return a function of glibc, or None where there is none."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except AttributeError:  # another C library
        return None


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Let the first Ctrl-C (SIGTERM, `STOP`) wait for the end of a block; a second one ends it.

    Outside of the main thread, which alone is interrupted, nothing is held.
    """
    came: list[int] = []
    held = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, STOP)
        if callable(handler := signal.getsignal(number))
    }

    def release() -> None:
        for number, handler in held.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        release()

    if threading.current_thread() is not threading.main_thread():
        held.clear()
    for number in held:
        signal.signal(number, note)
    try:
        yield
    finally:
        release()
    if came:
        signal.raise_signal(came[0])
