"""Forward passes on a CUDA device that is not there: shapes, dtypes and devices, and no numbers.

torch's `FakeTensorMode` refuses operands on two devices as CUDA does. In a torch that was built
without CUDA, indexing asks for a guard of CUDA's current device, which it lacks; the guard of the
device ``meta`` stands in, which does nothing. A torch with CUDA asks its driver for a real GPU.
"""

import copy
import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

CUDA_IS_REAL = pytest.mark.skipif(
    torch.backends.cuda.is_built() and not torch.cuda.is_available(),
    reason="a torch with CUDA pretends no GPU",
)
"""For tests that only a torch without CUDA can run, or one with a GPU."""

_CUDA, _META = 1, 14
"""Places of `c10::DeviceType` in the table of guards."""


@contextmanager
def fake_gpu() -> Iterator[None]:
    """Make every tensor of the block a fake one; those of ``device="cuda:0"`` are on the GPU."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    table = "_ZN3c104impl26device_guard_impl_registryE"
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(library, table)
    before = guards[_CUDA]
    guards[_CUDA] = before or guards[_META]
    try:
        with FakeTensorMode(), torch.no_grad():
            yield
    finally:
        guards[_CUDA] = before


def on_fake_gpu(module: nn.Module) -> nn.Module:
    """Return a copy of a module with its parameters and buffers on the GPU; in `fake_gpu`."""
    moved = copy.copy(module)
    for table in ("_parameters", "_buffers", "_modules"):
        moved.__dict__[table] = dict(module.__dict__[table])
    for name, one in module._parameters.items():
        if one is not None:
            moved._parameters[name] = nn.Parameter(_like(one), requires_grad=False)
    for name, one in module._buffers.items():
        moved._buffers[name] = None if one is None else _like(one)
    for name, part in module._modules.items():
        moved._modules[name] = None if part is None else on_fake_gpu(part)
    return moved


def _like(tensor: Tensor) -> Tensor:
    return gpu(*tensor.shape, dtype=tensor.dtype)


def gpu(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a tensor of the GPU; in `fake_gpu`."""
    return torch.zeros(shape, dtype=dtype, device="cuda:0")
