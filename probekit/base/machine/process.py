"""This process: the free memory and compiled kernels that it keeps, and Ctrl-C that waits."""

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import FrameType

import psutil

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
