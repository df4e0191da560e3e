"""Lenses, and the model's own norm and output head, which read layers through them.

The logit lens (nostalgebraist 2020) reads a layer as it is. A tuned lens (Belrose et al. 2023)
first adds an affine map of it.
"""

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from probekit.base.registry import PathName
from probekit.base.replacing import replacing
from probekit.errors import MissingFileError, OptionError
from probekit.probe.model_parts import FinalNorm, OutputHead

LOGIT, TUNED = "logit", "tuned"

_OFF = 1e-3
"""Weight of the norm, over the median, below which a channel is left out of what is fitted."""

_PARAMETERS, _ABOUT = "params.pt", "config.json"
"""Files of a lens as the package tuned-lens writes them."""

_DAMAGE = (pickle.UnpicklingError, ValueError, TypeError, AttributeError, RuntimeError, EOFError)
"""What reading a file that is no lens raises."""

Part = TypeVar("Part", FinalNorm, OutputHead)
Translator = tuple[Float[Tensor, "dim dim"], Float[Tensor, " dim"]]


@dataclass(frozen=True, eq=False)
class Lens:
    """``h + A_i h + b_i`` of layer i; of a layer without a translator h itself.

    Attributes:
        name: ``logit``, ``tuned``, or the folder that it was read from.
        translators: A_i (D, D) and b_i (D,) by layer.
    """

    name: str = LOGIT
    translators: Mapping[int, Translator] = field(default_factory=dict)

    def __call__(self, layer: int, h: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
        """Translate rows of a layer to where the final norm and the output head read them."""
        if layer not in self.translators:
            return h
        weight, bias = (part.to(h) for part in self.translators[layer])
        return h + functional.linear(h, weight, bias)

    def save(self, folder: Path, model: str, n_blocks: int, dim: int) -> None:
        """Write it as the package tuned-lens does; layers without a translator have zeros.

        Args:
            folder: is made where it is not there.
            model: name of the backbone.
            n_blocks: L; the lens has translators of the layers 0 to L - 1.
            dim: D, the width of the model.
        """
        state: dict[str, Tensor] = {}
        for layer in range(n_blocks):
            zeros = torch.zeros(dim, dim), torch.zeros(dim)
            weight, bias = self.translators.get(layer, zeros)
            state |= {f"{layer}.weight": weight.clone(), f"{layer}.bias": bias.clone()}
        about = {
            "base_model_name_or_path": model, "d_model": dim, "num_hidden_layers": n_blocks,
            "bias": True, "lens_type": "linear_tuned_lens",
        }  # fmt: skip
        with replacing(folder / _PARAMETERS) as made:
            torch.save(state, made)
        with replacing(folder / _ABOUT) as made:
            made.write_text(json.dumps(about, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: PathName, n_blocks: int, dim: int) -> "Lens":
        """Read a lens that this or the package tuned-lens wrote; its pickle runs no code.

        Args:
            folder: with ``params.pt``.
            n_blocks: L of the model that it is to read.
            dim: D of the model.

        Raises:
            MissingFileError: there is no such file.
            OptionError: it holds something else, or is of another model.
        """
        path = Path(folder) / _PARAMETERS
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            layers = [name.removesuffix(".weight") for name in state if name.endswith(".weight")]
            translators = {
                int(layer): (state[f"{layer}.weight"].float(), _bias(state, layer, dim))
                for layer in layers
            }
        except (FileNotFoundError, NotADirectoryError):
            raise MissingFileError(f"--lens {folder}: there is no {path}.") from None
        except _DAMAGE as error:
            raise OptionError(f"--lens {folder}: {path} is no tuned lens ({error}).") from None
        shapes = {(*weight.shape, *bias.shape) for weight, bias in translators.values()}
        if set(translators) != set(range(n_blocks)) or shapes != {(dim, dim, dim)}:
            raise OptionError(
                f"--lens {folder}: its {len(translators)} maps have shapes {sorted(shapes)}, but "
                f"this model has {n_blocks} blocks of width {dim}. Give a lens that was fitted on "
                "this model."
            )
        parts = [part for translator in translators.values() for part in translator]
        if not all(bool(part.isfinite().all()) for part in parts):
            raise OptionError(f"--lens {folder}: {path} holds values that are not finite.")
        return cls(str(folder), translators)


def _bias(state: Mapping[str, Tensor], layer: str, dim: int) -> Float[Tensor, " dim"]:
    bias = state.get(f"{layer}.bias")
    return torch.zeros(dim) if bias is None else bias.float()


@dataclass(frozen=True, eq=False)
class LogitReader:
    """What makes logits of layers: the model's own norm and output head.

    Attributes:
        norm: what a layer before the last goes through; None if the model has none.
        head: makes logits.
        last: L.
    """

    norm: FinalNorm | None
    head: OutputHead
    last: int

    def to(self, device: torch.device) -> "LogitReader":
        """Return the same on a device."""
        norm = None if self.norm is None else _moved(self.norm, device)
        return replace(self, norm=norm, head=_moved(self.head, device))

    def logits(
        self, lens: Lens, layer: int, h: Float[Tensor, "rows dim"]
    ) -> Float[Tensor, "rows vocabulary"]:
        """Return the logits of rows of a layer; those of layer L are the model's own."""
        if layer == self.last:
            return self.head(h)
        h = lens(layer, h)
        return self.head(h if self.norm is None else self.norm(h))

    def direction(self, h: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
        """Return rows of layer L before the scale and shift of the norm that they went through."""
        if self.norm is None:
            return h
        bias = 0.0 if self.norm.bias is None else self.norm.bias
        weight = self.norm.weight
        # a channel that the norm all but switches off would be noise, and matters to no logit
        matters = weight.abs() > _OFF * weight.abs().median()
        return torch.where(matters, (h - bias) / weight, 0.0)


def _moved(part: Part, device: torch.device) -> Part:
    """Return a part of a model with its tensors on a device."""
    values = vars(part).items()
    moved: dict[str, Any] = {n: v.to(device) for n, v in values if isinstance(v, Tensor)}
    return replace(part, **moved)


def named_lens(lens: str | Lens, n_blocks: int, dim: int) -> Lens:
    """Return a lens by its name or folder; errors are those of `Lens.load`."""
    if isinstance(lens, Lens):
        return lens
    return Lens() if lens == LOGIT else Lens.load(lens, n_blocks, dim)
