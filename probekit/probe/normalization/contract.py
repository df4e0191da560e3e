"""What every normalisation promises, and those that learn nothing from rows."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from probekit.base.tensors import full
from probekit.errors import OptionError
from probekit.probe.model_parts import FinalNorm

Blocks = Iterable[Float[Tensor, "_ layers dim"]]
"""Train rows in blocks, which may be empty."""


@dataclass(frozen=True, kw_only=True)
class RowFacts:
    """What a normalisation may want to know of the model whose states the rows are.

    Attributes:
        final_norm: the model's final norm, where it has one.
        normed_layer: the layer that is stored after that norm (layer L of Llama or GPT-2), if any.
    """

    final_norm: FinalNorm | None = None
    normed_layer: int | None = None


class Normalization(nn.Module, ABC):
    """Maps z to z of the same shape; in float32 (float64 for float64) except ``none``.

    What it learned lies in buffers, not in parameters, and travels in a saved head's state dict.
    Members of a stream share the normalisation of all layers that any of them reads; each layer is
    treated by itself, so that the part of some layers (`cut`) treats them as the whole does.

    Attributes:
        layers: layer numbers along axis 1 of z, ascending.
    """

    name: ClassVar[str]
    """Key in ``NORMALIZATIONS``."""

    fitted: ClassVar[bool] = False
    """Whether it learns from train rows. A run that goes on from a saved head then takes over what
    was learned: fitted again, it would change what head and decoder see. Such a normalisation is
    rebuilt from its name and its tensors alone."""

    def __init__(self, layers: tuple[int, ...]) -> None:
        """Keep the layers; subclasses then create their buffers."""
        super().__init__()
        self.layers = layers

    @classmethod
    def fit(cls, blocks: Blocks, layers: tuple[int, ...], facts: RowFacts) -> Self:
        """Return it for some layers.

        Args:
            blocks: the valid train rows, to be read once, or not at all.
            layers: layer numbers along axis 1.
            facts: of the model.

        Raises:
            OptionError: it cannot be had of these rows, or of this model.
        """
        return cls(layers)

    @abstractmethod
    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return the treated rows; layer-major memory stays layer-major."""

    @property
    def affine(self) -> tuple[Float[Tensor, "*layers dim"], Float[Tensor, "*layers dim"]] | None:
        """Scale and shift, if it is ``z * scale + shift`` for every row; each broadcasts to z.

        None where a row decides what becomes of it.
        """
        return None

    def cut(self, layers: tuple[int, ...]) -> Self:
        """Return the normalisation of some of its layers alone."""
        return type(self)(layers)

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` needs besides the state dict."""
        return {"name": self.name}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], layers: tuple[int, ...], dim: int) -> Self:
        """Return what ``to_json`` described, ready for ``load_state_dict``.

        Args:
            value: what ``to_json`` returned.
            layers: layer numbers along axis 1.
            dim: width d.
        """
        return cls(layers)


class NoNormalization(Normalization):
    """Rows as they are stored, dtype included.

    Row norms of a decoder run from 3 to 680 over its layers, so conclusions about decoders are
    shown raw and standardised.
    """

    name = "none"

    @property
    def affine(self) -> tuple[Tensor, Tensor]:
        """Scale 1 and shift 0."""
        return torch.ones(1, 1), torch.zeros(1, 1)

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return z itself."""
        return z


class RowNormalization(Normalization):
    """LayerNorm of each row of each layer, without parameters (eps 1e-5)."""

    name = "layernorm"

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return rows with mean 0 and variance 1."""
        z = full(z.transpose(0, 1))
        return functional.layer_norm(z, z.shape[-1:]).transpose(0, 1)


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
