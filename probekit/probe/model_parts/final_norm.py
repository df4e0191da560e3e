"""The norm after a model's last block, as numbers that later steps use without the model.

On disk it is ``backbone/final_norm.safetensors`` in an entry: tensors ``weight`` (D,) and ``bias``
(D,) in float32, metadata ``kind`` and ``eps``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import torch
from jaxtyping import Float
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from probekit.errors import EXTRACT_AGAIN, EntryError


def tensor_file(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return the content of a safetensors file, its metadata in the order of their names.

    The library writes them in another order in each call, and an entry that is made again, or
    resumed after a kill, has the same bytes.
    """
    data = save(dict(tensors), metadata=dict(metadata))
    # 8 bytes: the length n of the header; n bytes: the header as JSON, blanks behind it; tensors
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length]) | {"__metadata__": dict(sorted(metadata.items()))}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return b"".join((data[:8], text.ljust(length), memoryview(data)[8 + length :]))


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
