"""What the measurements ran on: in words, and its rate of matrix products."""

import os
import platform
import re
from collections.abc import Callable
from pathlib import Path

import psutil
import torch

from probekit.base.machine import native_bfloat16

PRODUCT = (1024, 768, 3072)
"""Rows, inner width and columns of the products whose rate is the machine's."""

_PRODUCTS = 200
_STATUS = Path("/proc/self/status")
_CPUINFO = Path("/proc/cpuinfo")
_SETS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile", "asimd", "bf16", "sve")


def describe(device: str) -> str:
    """Return processor, cores, instruction sets, memory, GPU and versions as a Markdown list.

    Args:
        device: what computes; measurements on another one than the processor are not its own.
    """
    lines = [
        f"processor: {_processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
        f"instruction sets: {', '.join(_instruction_sets()) or 'unknown'}",
        f"memory: {psutil.virtual_memory().total / 2**30:.0f} GiB",
        f"GPU: {torch.cuda.get_device_name() if torch.cuda.is_available() else 'none'}",
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.system()}",
    ]
    if device != "cpu":
        lines.insert(0, f"measured on: {device}")
    return "\n".join(f"- {line}" for line in lines)


def product_dtype(device: str) -> torch.dtype:
    """Return what extraction and heavy heads multiply in: bfloat16 where native, else float32."""
    return torch.bfloat16 if native_bfloat16(device) else torch.float32


def matrix_product(device: str) -> tuple[Callable[[], None], float]:
    """Return a run of matrix products in `product_dtype` and its number of operations."""
    rows, inner, columns = PRODUCT
    dtype = product_dtype(device)
    left = torch.randn(rows, inner, dtype=dtype, device=device)
    right = torch.randn(inner, columns, dtype=dtype, device=device)

    def run() -> None:
        for _ in range(_PRODUCTS):
            out = left @ right
        out[0, 0].item()

    return run, 2.0 * rows * inner * columns * _PRODUCTS


def _processor() -> str:
    """Return the processor's name, with family and model: a virtual machine's may hide the rest."""
    name = _cpuinfo("model name") or platform.processor() or platform.machine()
    family, model = _cpuinfo("cpu family"), _cpuinfo("model")
    return f"{name} (family {family}, model {model})" if family and model else name


def _instruction_sets() -> list[str]:
    present = (_cpuinfo("flags") or _cpuinfo("Features")).split()
    return [name for name in _SETS if name in present]


def _cpuinfo(field: str) -> str:
    """Return a field of the first processor; empty where the system does not say."""
    lines = _CPUINFO.read_text().splitlines() if _CPUINFO.exists() else []
    pairs = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in pairs if name.strip() == field), "")


if __name__ == "__main__":
    print(describe("cpu"))


def resident(field: str) -> int:
    """Return a field of this process's status in bytes, such as ``VmHWM`` (Linux)."""
    found = re.search(rf"{field}:\s+(\d+) kB", _STATUS.read_text())
    assert found is not None
    return 1024 * int(found[1])
