"""What every normalisation promises, and those that learn nothing."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from probekit.base.tensors import full
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
