"""Treat each layer before a head: nothing, LayerNorm, standardisation or the model's final norm.

Fitting returns a finished `Normalization` whose buffers (no parameters) travel in a saved head's
state dict. Published runs use ``none``; row norms of a decoder run from 3 to 680 over its layers,
so conclusions about decoders are shown raw and standardised.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from probekit.base.numbers.precision import full
from probekit.base.registry import choose
from probekit.errors import OptionError
from probekit.probe.model_parts.final_norm import FinalNorm
from probekit.probe.normalization.moments import Moments


class Normalization(nn.Module, ABC):
    """Maps z to z of the same shape; in float32 (float64 for float64) except ``none``."""

    name: ClassVar[str]

    @abstractmethod
    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return the treated rows; layer-major memory stays layer-major."""

    def to_json(self) -> dict[str, Any]:
        """Return what `normalization_from_json` needs besides the state dict."""
        return {"name": self.name}


class NoNormalization(Normalization):
    """Rows as they are stored, dtype included."""

    name = "none"

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return z itself."""
        return z


class RowLayerNorm(Normalization):
    """LayerNorm of each row of each layer, without parameters (eps 1e-5)."""

    name = "layernorm"

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return rows with mean 0 and variance 1."""
        z = full(z.transpose(0, 1))
        return functional.layer_norm(z, z.shape[-1:]).transpose(0, 1)


class Standardize(Normalization):
    """Mean 0 and deviation 1 per layer and channel over the train rows.

    A channel is constant when its deviation is below 1e-4 of its layer's median; it is divided by
    that median instead, so that noise in a dead channel is not blown up.
    """

    name = "standardize"
    mean: Tensor
    scale: Tensor

    def __init__(
        self, mean: Float[Tensor, "layers dim"], deviation: Float[Tensor, "layers dim"]
    ) -> None:
        """Keep the mean and 1 / deviation in float32."""
        super().__init__()
        typical = deviation.median(-1, keepdim=True).values
        typical = torch.where(typical > 0, typical, torch.ones_like(typical))
        usable = torch.where(deviation > 1e-4 * typical, deviation, typical)
        self.register_buffer("mean", mean.float())
        self.register_buffer("scale", usable.reciprocal().float())

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return the standardised rows."""
        z = full(z.transpose(0, 1))
        shift = -self.mean * self.scale
        return torch.addcmul(shift.unsqueeze(1), z, self.scale.unsqueeze(1)).transpose(0, 1)


class ApplyFinalNorm(Normalization):
    """The backbone's final norm on every layer, as its output head would see it.

    ``already_normed`` is the position along axis 1 of the layer that the backbone has normed
    already (layer L of Llama or GPT-2); it passes through.
    """

    name = "final-norm"
    weight: Tensor
    bias: Tensor

    def __init__(self, norm: FinalNorm, already_normed: int | None) -> None:
        """Copy the norm's weights in float32."""
        super().__init__()
        self.kind = norm.kind
        self.eps = norm.eps
        self.already_normed = already_normed
        bias = torch.zeros_like(norm.weight) if norm.bias is None else norm.bias
        self.register_buffer("weight", norm.weight.detach().float().clone())
        self.register_buffer("bias", bias.detach().float().clone())

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return the normed rows."""
        z = full(z.transpose(0, 1))
        if self.kind == "layernorm":
            normed = functional.layer_norm(z, z.shape[-1:], eps=self.eps)
        else:
            normed = functional.rms_norm(z, z.shape[-1:], eps=self.eps)
        normed = torch.addcmul(self.bias, normed, self.weight)
        if self.already_normed is not None:
            normed[self.already_normed] = z[self.already_normed]
        return normed.transpose(0, 1)

    def to_json(self) -> dict[str, Any]:
        """Return name, kind, eps and the layer that passes through."""
        keep = {"kind": self.kind, "eps": self.eps, "already_normed": self.already_normed}
        return super().to_json() | keep


NORMALIZATIONS: dict[str, type[Normalization]] = {
    "none": NoNormalization,
    "layernorm": RowLayerNorm,
    "standardize": Standardize,
    "final-norm": ApplyFinalNorm,
}


def fit_normalization(
    name: str,
    blocks: Iterable[Float[Tensor, "_ layers dim"]] = (),
    *,
    layers: tuple[int, ...],
    final_norm: FinalNorm | None = None,
    already_normed: int | None = None,
) -> Normalization:
    """Return the normalisation called ``name``, fitted.

    Args:
        name: a key of ``NORMALIZATIONS``.
        blocks: the valid train rows, in blocks; read once, and by ``standardize`` alone.
        layers: layer numbers along axis 1.
        final_norm: the backbone's final norm, for ``final-norm``.
        already_normed: number of the layer that the backbone stores after its final norm (L where
            the manifest says ``final_norm``), else None.

    Raises:
        UnknownNameError: no normalisation has this name.
        OptionError: ``standardize`` without rows, or ``final-norm`` for a backbone without one.
    """
    kind = choose("normalization", name, NORMALIZATIONS)
    if kind is Standardize:
        return _fit_standardize(blocks)
    if kind is ApplyFinalNorm:
        if final_norm is None:
            raise OptionError(
                "--normalize final-norm: this backbone has no final norm (BERT and RoBERTa have "
                "none); use layernorm or standardize."
            )
        normed = layers.index(already_normed) if already_normed in layers else None
        return ApplyFinalNorm(final_norm, normed)
    return kind()


def _fit_standardize(blocks: Iterable[Float[Tensor, "_ layers dim"]]) -> Standardize:
    moments = Moments()
    for block in blocks:
        moments.add(block)
    if moments.count == 0:
        raise OptionError("--normalize standardize: there is no train row to fit it on.")
    return Standardize(*moments.result())


def normalization_from_json(value: Mapping[str, Any], n_layers: int, dim: int) -> Normalization:
    """Return the normalisation that ``to_json`` described, ready for ``load_state_dict``.

    Args:
        value: what `Normalization.to_json` returned.
        n_layers: layers along axis 1.
        dim: width d.

    Raises:
        UnknownNameError: no normalisation has this name.
    """
    kind = choose("normalization", str(value.get("name", "")), NORMALIZATIONS)
    if kind is Standardize:
        return Standardize(torch.zeros(n_layers, dim), torch.ones(n_layers, dim))
    if kind is ApplyFinalNorm:
        norm = FinalNorm(kind=value["kind"], weight=torch.ones(dim), eps=value["eps"])
        return ApplyFinalNorm(norm, value["already_normed"])
    return kind()
