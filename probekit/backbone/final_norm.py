"""The norm after a model's last block, as numbers that later steps can use without the model."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

Kind = Literal["layernorm", "rmsnorm"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class FinalNorm:
    """A norm as an equation: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Attributes:
        kind: "layernorm", or "rmsnorm" (no mean, and the mean square for the variance).
        eps: added to the variance.
        weight: what multiplies, in full (Gemma keeps ``weight - 1``; here 1 is added).
        bias: what is added; zeros for an rmsnorm.
    """

    kind: Kind
    eps: float
    weight: Float[Tensor, " dim"]
    bias: Float[Tensor, " dim"]

    def __call__(self, rows: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Apply the norm to rows, in float32."""
        rows = rows.float()
        if self.kind == "layernorm":
            rows = rows - rows.mean(-1, keepdim=True)
        return (
            rows * (rows.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight
            + self.bias
        )

    def tensors(self) -> dict[str, Float[Tensor, " dim"]]:
        """Return weight and bias by name (float32, on the CPU), for a safetensors file."""
        return {"weight": self.weight, "bias": self.bias}

    def to_json(self) -> dict[str, Any]:
        """Return kind and eps."""
        return {"kind": self.kind, "eps": self.eps}


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
