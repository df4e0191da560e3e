"""The model's own final norm on every layer."""

from collections.abc import Mapping
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from probekit.base.tensors import full
from probekit.errors import OptionError
from probekit.probe.model_parts import FinalNorm
from probekit.probe.normalization.contract import Blocks, Normalization, RowFacts


class FinalNormalization(Normalization):
    """The backbone's final norm on every layer, as its output head would see it.

    Attributes:
        normed_layer: the layer that the backbone has normed already; it passes through.
    """

    name = "final-norm"
    weight: Tensor
    bias: Tensor

    def __init__(self, layers: tuple[int, ...], norm: FinalNorm, normed_layer: int | None) -> None:
        """Copy the norm's weights in float32."""
        super().__init__(layers)
        self.kind = norm.kind
        self.eps = norm.eps
        self.normed_layer = normed_layer
        bias = torch.zeros_like(norm.weight) if norm.bias is None else norm.bias
        self.register_buffer("weight", norm.weight.detach().float().clone())
        self.register_buffer("bias", bias.detach().float().clone())

    @classmethod
    def fit(cls, blocks: Blocks, layers: tuple[int, ...], facts: RowFacts) -> Self:
        """Return the model's norm; no row is read.

        Raises:
            OptionError: the model has none.
        """
        if facts.final_norm is None:
            raise OptionError(
                "--normalize final-norm: no final norm applies to these rows (BERT and RoBERTa "
                "have none, and points inside of blocks come before it). Use layernorm or "
                "standardize."
            )
        return cls(layers, facts.final_norm, facts.normed_layer)

    @property
    def already_normed(self) -> int | None:
        """Where along axis 1 the layer lies that passes through."""
        return self.layers.index(self.normed_layer) if self.normed_layer in self.layers else None

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return the normed rows."""
        z = full(z.transpose(0, 1))
        if self.kind == "layernorm":
            normed = functional.layer_norm(z, z.shape[-1:], eps=self.eps)
        else:
            normed = functional.rms_norm(z, z.shape[-1:], eps=self.eps)
        normed = torch.addcmul(self.bias, normed, self.weight)
        if (index := self.already_normed) is not None:
            normed[index] = z[index]
        return normed.transpose(0, 1)

    @property
    def affine(self) -> tuple[Tensor, Tensor] | None:
        """Scale 1 and shift 0, if the layer that passes through is all there is."""
        alone = self.layers == (self.normed_layer,)
        return (torch.ones(1, 1), torch.zeros(1, 1)) if alone else None

    def cut(self, layers: tuple[int, ...]) -> Self:
        """Return the norm of some of its layers alone."""
        norm = FinalNorm(kind=self.kind, eps=self.eps, weight=self.weight, bias=self.bias)
        return type(self)(layers, norm, self.normed_layer)

    def to_json(self) -> dict[str, Any]:
        """Return name, kind, eps and the place of the layer that passes through."""
        keep = {"kind": self.kind, "eps": self.eps, "already_normed": self.already_normed}
        return super().to_json() | keep

    @classmethod
    def from_json(cls, value: Mapping[str, Any], layers: tuple[int, ...], dim: int) -> Self:
        """Return a norm of the saved kind, for the saved numbers to be loaded into."""
        norm = FinalNorm(kind=value["kind"], eps=value["eps"], weight=torch.ones(dim))
        index = value["already_normed"]
        return cls(layers, norm, None if index is None else layers[index])
