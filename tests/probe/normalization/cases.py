"""Rows, a final norm and what a normalisation is fitted with."""

import torch
from torch import Tensor

from probekit.probe.model_parts.final_norm import FinalNorm
from probekit.probe.normalization import NORMALIZATIONS, Normalization, RowFacts

LAYERS, DIM, ROWS = (0, 2, 3), 8, 50


def rows(dtype: torch.dtype = torch.float32, scale: float = 3.0, shift: float = 5.0) -> Tensor:
    z = torch.randn(len(LAYERS), ROWS, DIM, generator=torch.Generator().manual_seed(0))
    return (z * scale + shift).to(dtype).transpose(0, 1)


def final_norm(kind: str = "rmsnorm") -> FinalNorm:
    generator = torch.Generator().manual_seed(1)
    weight, bias = torch.rand(2, DIM, generator=generator)
    return FinalNorm(kind=kind, weight=weight, bias=bias if kind == "layernorm" else None, eps=1e-6)


def fit(name: str, z: Tensor | None = None, normed_layer: int | None = 3) -> Normalization:
    blocks = (rows() if z is None else z).split(13)
    facts = RowFacts(final_norm=final_norm(), normed_layer=normed_layer)
    return NORMALIZATIONS[name].fit(blocks, LAYERS, facts)
