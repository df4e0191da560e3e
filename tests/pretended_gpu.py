"""A CUDA device that is pretended: arithmetic is the CPU's, and what CUDA would refuse fails.

Every tensor's storage knows the device that its memory would be on. What is made without a device
is in the host's memory, as torch makes it; ``.to`` and ``device=`` take it to the GPU. Tensors of
both in one operation, and NumPy on a tensor of the GPU, fail as they would there.

Not seen: what `backward` does, and what torch does within one of its own functions.
"""

import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS

GPU, HOST = torch.device("cuda:0"), torch.device("cpu")

# What takes tensors of both: copies, indices in the host's memory, and what computes nothing.
_MIXED = {
    *("copy_", "__getitem__", "__setitem__", "to", "_has_compatible_shallow_copy_type"),
    *("index_put_", "type_as", "__set__"),
}
_TO_NUMPY = {"numpy", "__array__"}
_MAKES_COPY = {"to", "cpu", "cuda", "type_as"}


class WrongDevice(AssertionError):
    """An operation that CUDA would refuse."""


def device_of(tensor: Tensor) -> torch.device:
    """Return the device that a tensor's memory would be on; asked from outside of the mode."""
    return getattr(tensor.untyped_storage(), "pretended", tensor.device)


class PretendedGpu(TorchFunctionMode):
    """Runs what is meant for a GPU on the CPU, and fails where it would fail there."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name, kwargs = func.__name__, kwargs or {}
        tensors = [*_tensors(args), *_tensors(kwargs.values())]
        if name == "__get__" and (what := func.__self__.__name__) in ("device", "is_cuda"):
            return device_of(args[0]) if what == "device" else device_of(args[0]) == GPU
        devices = {device_of(one) for one in tensors}
        if name in _TO_NUMPY and GPU in devices:
            raise WrongDevice(f"{name} of a tensor of the GPU")
        if name in ("_parse_to", "device"):  # names of devices, and no tensors
            return func(*args, **kwargs)
        wanted = self._wanted(name, args, kwargs)
        place = wanted or (GPU if GPU in devices else HOST)
        self._check(name, tensors, kwargs, place)
        kwargs = {key: _on_host(one) for key, one in kwargs.items() if key != "pin_memory"}
        found = func(*map(_on_host, args), **kwargs)
        if name in _MAKES_COPY:
            place = wanted or device_of(args[0])
            if found.untyped_storage() is args[0].untyped_storage() and place not in devices:
                found = found.clone()
        if place == GPU:
            known = [one.untyped_storage() for one in tensors]
            for one in _tensors((found,)):
                if not any(one.untyped_storage() is storage for storage in known):
                    one.untyped_storage().pretended = GPU
        return found

    def _wanted(self, name, args, kwargs):
        """Return the device that a call names, if any."""
        if name in ("cpu", "cuda"):
            return HOST if name == "cpu" else GPU
        named = [*args[1:2], kwargs.get("other")] if name in ("to", "type_as") else []
        for one in (kwargs.get("device"), *named):
            if isinstance(one, Tensor):
                return device_of(one)
            if isinstance(one, torch.device) or (isinstance(one, str) and name != "einsum"):
                place = torch.device(one)
                return GPU if place.type == "cuda" else place
        return None

    def _check(self, name, tensors, kwargs, place):
        in_place = name.startswith("__i") or (name.endswith("_") and not name.endswith("__"))
        here = [
            one
            for number, one in enumerate(tensors)
            if device_of(one) == HOST and (one.dim() or (in_place and number == 0))
        ]  # a number of the host is taken along, but not written to
        mixed = here and any(device_of(one) == GPU for one in tensors)
        if mixed and name not in _MIXED:
            raise WrongDevice(
                f"{name} of tensors of the GPU and of one {tuple(here[0].shape)} here"
            )
        generator = kwargs.get("generator")
        if generator is not None and place.type != "meta" and generator.device != place:
            raise WrongDevice(f"{name} on {place} with a generator of {generator.device}")


def _tensors(given):
    """Yield the tensors among some values, lists and tuples of them included."""
    for one in given:
        if isinstance(one, Tensor):
            yield one
        elif isinstance(one, list | tuple):
            yield from _tensors(one)


def _on_host(one):
    """Return a device, or its name, as the machine has it."""
    place = isinstance(one, str | torch.device) and str(one).startswith("cuda")
    return HOST if place else one


class _Generator(torch.Generator):
    """A generator of the GPU, or of the host."""

    def __new__(cls, device="cpu"):
        made = super().__new__(cls, "cpu")
        made.place = GPU if torch.device(device).type == "cuda" else HOST
        return made

    @property
    def device(self):
        return self.place


class _Event:
    """An event of a queue in which everything is done already."""

    def __init__(self, enable_timing):
        pass

    def record(self, stream):
        pass

    def synchronize(self):
        pass

    def query(self):
        return True

    def elapsed_time(self, other):
        return 1.0


_OF_CUDA = {
    "device_count": lambda: 1, "Event": _Event, "current_stream": lambda device: None,
    "device": lambda device: nullcontext(), "manual_seed": lambda seed: None,
    "get_rng_state": lambda device: None, "set_rng_state": lambda state, device: None,
    "mem_get_info": lambda device: (2**30, 2**30), "get_device_name": lambda device: "pretended",
}  # fmt: skip


def _submit(pool, work, *args, submit=ThreadPoolExecutor.submit, **kwargs):
    """Run work in a thread as in this one: a mode is of one thread."""

    def in_mode():
        with PretendedGpu():
            return work(*args, **kwargs)

    return submit(pool, in_mode)


@contextmanager
def pretended_gpu(monkeypatch):
    """Pretend one GPU, ``cuda:0``."""
    for registry in (HEADS, DECODERS):
        tuple(registry.values())  # imported now: they name torch.Generator, which is replaced here
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PyTorch was compiled without cuDNN")
        patch.setattr(ThreadPoolExecutor, "submit", _submit)
        patch.setattr(torch, "Generator", _Generator)
        for name, stand_in in _OF_CUDA.items():
            patch.setattr(torch.cuda, name, stand_in)
        with PretendedGpu():
            yield GPU
