"""Read the norm after a model's last block, in whatever form its family writes it."""

import logging
from collections.abc import Iterator

import torch
from torch import nn

from probekit.probe.model_parts.final_norm import FinalNorm

_log = logging.getLogger(__name__)


def read_final_norm(module: nn.Module, dim: int) -> FinalNorm | None:
    """Express a norm module as a ``FinalNorm``, proven on random rows.

    Families write the same norm in different ways, so every reading of the module's numbers is
    tried until one reproduces it.

    Returns:
        the norm, or None (with a logged warning) if no reading does.
    """
    module_32 = _copy_in_float32(module)
    rows = torch.randn(8, dim, generator=torch.Generator().manual_seed(0)) * 3 + 1
    with torch.no_grad():
        expected = module_32(rows)
    for norm in _readings(module_32, dim):
        if torch.allclose(norm(rows), expected, rtol=1e-4, atol=1e-4):
            return norm
    _log.warning("the final norm %s is of an unknown form.", type(module).__name__)
    return None


def _copy_in_float32(module: nn.Module) -> nn.Module:
    import copy

    return copy.deepcopy(module).to(device="cpu", dtype=torch.float32)


def _readings(module: nn.Module, dim: int) -> Iterator[FinalNorm]:
    own = {name: value.detach() for name, value in module.named_parameters(recurse=False)}
    weight = own.get("weight", torch.ones(dim))
    bias = own.get("bias", torch.zeros(dim))
    eps = _epsilon(module)
    for kind in ("layernorm", "rmsnorm"):
        for offset in (0.0, 1.0):
            yield FinalNorm(kind=kind, eps=eps, weight=weight + offset, bias=bias.clone())


def _epsilon(module: nn.Module) -> float:
    for name in ("eps", "variance_epsilon", "epsilon"):
        value = module.__dict__.get(name)
        if isinstance(value, float):
            return value
    return 1e-5
