"""The norm after a model's last block, as numbers that later steps use without the model.

On disk it is ``backbone/final_norm.safetensors`` in an entry: tensors ``weight`` (D,) and ``bias``
(D,) in float32, metadata ``kind`` and ``eps``.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import torch
from jaxtyping import Float
from safetensors import safe_open
from torch import Tensor

from probekit.errors import EXTRACT_AGAIN, EntryError
from probekit.probe.model_parts.tensor_file import tensor_file

FILE = "final_norm.safetensors"
NormKind = Literal["layernorm", "rmsnorm"]


@dataclass(frozen=True, kw_only=True, eq=False)
class FinalNorm:
    """A norm as an equation: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Attributes:
        kind: "layernorm", or "rmsnorm" (no mean, and the mean square for the variance).
        eps: added to the variance.
        weight: what multiplies, in full (Gemma keeps ``weight - 1``; here 1 is added).
        bias: what is added; None is nothing.
    """

    kind: NormKind
    eps: float
    weight: Float[Tensor, " dim"]
    bias: Float[Tensor, " dim"] | None = None

    def __call__(self, rows: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Apply the norm to rows, in float32."""
        rows = rows.float()
        if self.kind == "layernorm":
            rows = rows - rows.mean(-1, keepdim=True)
        normed = rows * (rows.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight
        return normed if self.bias is None else normed + self.bias

    def to_file(self) -> bytes:
        """Return the content of the safetensors file."""
        bias = torch.zeros_like(self.weight) if self.bias is None else self.bias
        tensors = {"weight": self.weight, "bias": bias}
        return tensor_file(tensors, {"kind": self.kind, "eps": str(self.eps)})

    @classmethod
    def from_file(cls, path: Path) -> "FinalNorm | None":
        """Read a norm back, on the CPU; None if there is no such file: the model has no such norm.

        Raises:
            EntryError: the file is damaged.
        """
        if not path.is_file():
            return None
        try:
            with safe_open(path, "pt") as file:
                about = file.metadata()
                return cls(
                    kind=cast(NormKind, about["kind"]),
                    eps=float(about["eps"]),
                    weight=file.get_tensor("weight"),
                    bias=file.get_tensor("bias"),
                )
        except Exception as error:  # safetensors raises its own type for every kind of damage
            raise EntryError(f"{path} cannot be read ({error}). {EXTRACT_AGAIN}") from None
