"""What the measurements ran on: in words, and its rate of matrix products."""

import os
import platform
from collections.abc import Callable
from pathlib import Path

import psutil
import torch

PRODUCT = (1024, 768, 3072)
"""Rows, inner width and columns of the products whose rate is the machine's."""

_PRODUCTS = 200
_SETS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile", "asimd", "bf16", "sve")


def describe() -> str:
    """Return processor, cores, instruction sets, memory, GPU and versions as a Markdown list."""
    lines = [
        f"processor: {_processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
        f"instruction sets: {', '.join(_instruction_sets()) or 'unknown'}",
        f"memory: {psutil.virtual_memory().total / 2**30:.0f} GiB",
        f"GPU: {torch.cuda.get_device_name() if torch.cuda.is_available() else 'none'}",
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.system()}",
    ]
    return "\n".join(f"- {line}" for line in lines)


def matrix_product(device: str) -> tuple[Callable[[], None], float]:
    """Return a run of bfloat16 matrix products and its number of operations."""
    rows, inner, columns = PRODUCT
    left = torch.randn(rows, inner, dtype=torch.bfloat16, device=device)
    right = torch.randn(inner, columns, dtype=torch.bfloat16, device=device)

    def run() -> None:
        for _ in range(_PRODUCTS):
            out = left @ right
        out[0, 0].item()

    return run, 2.0 * rows * inner * columns * _PRODUCTS


def _processor() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _instruction_sets() -> list[str]:
    present = (_cpuinfo("flags") or _cpuinfo("Features")).split()
    return [name for name in _SETS if name in present]


def _cpuinfo(field: str) -> str:
    """Return a field of the first processor; empty where the system does not say."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), "")


if __name__ == "__main__":
    print(describe())
