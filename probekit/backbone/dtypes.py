"""The dtype in which a backbone computes."""

from typing import Literal, get_args

import torch

from probekit.base.machine.hardware import native_bfloat16
from probekit.errors import OptionError

ComputeDtype = Literal["auto", "float32", "bfloat16", "float16"]


def resolve_compute_dtype(name: str, device: str = "cpu") -> torch.dtype:
    """Turn ``--compute-dtype`` into a torch dtype.

    Args:
        name: "float32", "bfloat16", "float16", or "auto": bfloat16 where the device multiplies
            it in hardware (CUDA since compute capability 8.0, CPUs with AVX512-BF16 or AMX),
            else float32.
        device: a torch device string.

    Raises:
        OptionError: another name.
    """
    if name not in get_args(ComputeDtype):
        choices = ", ".join(get_args(ComputeDtype))
        raise OptionError(f"--compute-dtype {name!r} is unknown. Choose from: {choices}.")
    if name == "auto":
        name = "bfloat16" if native_bfloat16(device) else "float32"
    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[name]
