"""The linear maps of a lens, the files in which two packages store them, and what reads them.

The logit lens (nostalgebraist 2020) reads a layer as it is. A tuned lens (Belrose et al. 2023)
first adds an affine map of it. A Jacobian lens (Gurnee et al. 2026) first multiplies it by the mean
Jacobian of the last layer.
"""

import json
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from probekit.base.registry import PathName
from probekit.base.replacing import replacing
from probekit.errors import MissingFileError, OptionError
from probekit.probe.model_parts import FinalNorm, OutputHead

LOGIT, TUNED, JACOBIAN = "logit", "tuned", "jacobian"

PARAMETERS, _ABOUT = "params.pt", "config.json"
"""Files of a lens as the package tuned-lens writes them."""

JACOBIANS = "jacobian_lens.pt"
"""File of a lens as the package jlens writes it."""

DAMAGE = (
    pickle.UnpicklingError, SafetensorError, KeyError, ValueError, TypeError, AttributeError,
    RuntimeError, EOFError, IndexError, IsADirectoryError,
)  # fmt: skip
"""What safetensors and torch raise of a file that they cannot read."""

Translator = tuple[Float[Tensor, "dim dim"], Float[Tensor, " dim"]]


@dataclass(frozen=True, eq=False)
class Lens:
    """Maps layer i to ``h + A_i h + b_i``; a layer without a translator is left as it is.

    Attributes:
        name: ``logit``, ``tuned``, ``jacobian``, or where it was read from.
        translators: A_i (D, D) and b_i (D,) by layer; of a Jacobian J_i, A_i is J_i - 1.
        partial: whether layers without a translator cannot be read; the last one always can.
    """

    name: str = LOGIT
    translators: Mapping[int, Translator] = field(default_factory=dict)
    partial: bool = False

    def __call__(self, layer: int, h: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
        """Translate rows of a layer to where the final norm and the output head read them."""
        if layer not in self.translators:
            return h
        weight, bias = (part.to(h) for part in self.translators[layer])
        return h + functional.linear(h, weight, bias)

    def among(self, layers: Sequence[int], last: int, *, asked: bool) -> tuple[int, ...]:
        """Return those of some layers that it reads.

        Args:
            layers: their numbers.
            last: L, which every lens reads.
            asked: the user named them.

        Raises:
            OptionError: one that was asked for is not among them.
        """
        read = [n for n in layers if not self.partial or n in self.translators or n == last]
        if asked and len(read) < len(layers):
            missing = ", ".join(str(layer) for layer in layers if layer not in read)
            known = ", ".join(map(str, self.translators))
            raise OptionError(
                f"--layers {missing}: lens {self.name} has maps only for layers {known}. Choose "
                "among these and the last layer."
            )
        return tuple(read)

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
        with replacing(folder / PARAMETERS) as made:
            torch.save(state, made)
        with replacing(folder / _ABOUT) as made:
            made.write_text(json.dumps(about, indent=1), encoding="utf-8")

    @classmethod
    def of_jacobians(cls, name: str, jacobians: Mapping[int, Float[Tensor, "dim dim"]]) -> "Lens":
        """Return the lens ``J_i h`` of each layer i that has a Jacobian."""
        translators = {
            layer: (jacobian.float() - torch.eye(*jacobian.shape), torch.zeros(len(jacobian)))
            for layer, jacobian in sorted(jacobians.items())
        }
        return cls(name, translators, partial=True)

    @classmethod
    def load(cls, place: PathName, n_blocks: int, dim: int) -> "Lens":
        """Read a tuned or a Jacobian lens that this or another package wrote; no pickle runs code.

        Args:
            place: a folder with ``params.pt`` of tuned-lens or ``jacobian_lens.pt`` of jlens; or
                a file of Jacobians by block, as ``.pt`` or ``.safetensors``.
            n_blocks: L of the model that it is to read.
            dim: D of the model.

        Raises:
            MissingFileError: there is no such file.
            OptionError: it holds something else, or is of another model.
        """
        path = Path(place)
        if path.is_dir():
            path /= JACOBIANS if (path / JACOBIANS).exists() else PARAMETERS
        try:
            state = _by_name(_read(path))
            tuned = any(str(name).endswith(".bias") for name in state)
            lens = _tuned(state) if tuned else cls.of_jacobians(LOGIT, _jacobians(state))
        except (FileNotFoundError, NotADirectoryError):
            raise MissingFileError(
                f"--lens {place}: there is no {path}. Give logit, tuned, jacobian, or the folder "
                "or file of a lens."
            ) from None
        except ValueError as error:
            raise OptionError(f"--lens {place}: {path} is no lens ({error}).") from None
        shapes = {(*weight.shape, *bias.shape) for weight, bias in lens.translators.values()}
        missing = set(range(n_blocks)) - set(lens.translators) if tuned else set()
        beyond = set(lens.translators) - set(range(n_blocks + 1))
        if missing or beyond or shapes != {(dim, dim, dim)}:
            layers = ", ".join(map(str, sorted(lens.translators)))
            raise OptionError(
                f"--lens {place}: it maps the layers {layers} with shapes {sorted(shapes)}, but "
                f"this model has layers 0 to {n_blocks} of width {dim}. Give a lens that was "
                "fitted on this model."
            )
        parts = [part for translator in lens.translators.values() for part in translator]
        if not all(bool(part.isfinite().all()) for part in parts):
            raise OptionError(f"--lens {place}: {path} holds values that are not finite.")
        return cls(str(place), lens.translators, lens.partial)


def _read(path: Path) -> object:
    """Return what a file holds.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except DAMAGE as error:
        raise ValueError(error) from None


def _by_name(content: object) -> Mapping[Any, Any]:
    if not isinstance(content, Mapping):
        raise ValueError(f"expected tensors by name, found {type(content).__name__}")
    return content


def _tensor(content: object) -> Tensor:
    if not isinstance(content, Tensor) or content.layout is not torch.strided:
        raise ValueError(f"expected a dense tensor, found {type(content).__name__}")
    return content


def _tuned(state: Mapping[Any, Any]) -> Lens:
    if not all(isinstance(name, str) for name in state):
        raise ValueError("expected names that are text")
    layers = [name.removesuffix(".weight") for name in state if name.endswith(".weight")]
    translators = {}
    for layer in layers:
        weight, bias = (_tensor(state.get(f"{layer}.{part}")) for part in ("weight", "bias"))
        translators[int(layer)] = weight.float(), bias.float()
    return Lens(translators=translators)


def _jacobians(state: Mapping[Any, Any]) -> dict[int, Tensor]:
    """Return the Jacobians of a file by layer: of block n, whose output layer n + 1 is.

    They are under ``J`` (jlens) or ``parameters.jacobians`` (jpp_lens), or tensors of their own
    with the number of the block in their names.

    Raises:
        ValueError: there are none, several of a block, or some of another kind of number.
    """
    if state.get("J") is not None:
        state = _by_name(state["J"])
    elif "parameters" in state:
        state = _by_name(_by_name(state["parameters"]).get("jacobians"))
    blocks: dict[int, Tensor] = {}
    for key, jacobian in state.items():
        number = re.fullmatch(r"[^-\d]*(\d+)(\.weight)?", str(key))
        if number is None or int(number[1]) in blocks:
            raise ValueError(f"{key!r} is no map of a block, or a second one")
        if _tensor(jacobian).ndim != 2 or not jacobian.is_floating_point():
            raise ValueError(f"{key!r} is no matrix of real numbers")
        blocks[int(number[1])] = jacobian
    if not blocks:
        raise ValueError("it holds no map of a block")
    return {block + 1: jacobian for block, jacobian in blocks.items()}


def check_no_other(folder: Path, file: str) -> None:
    """Check that a folder that a lens is to be saved in holds none of another kind.

    Args:
        folder: need not exist.
        file: of the other kind.

    Raises:
        OptionError: it holds one.
    """
    if (folder / file).exists():
        raise OptionError(f"--save {folder} already holds another lens. Choose another folder.")


def named_lens(lens: str | Lens, n_blocks: int, dim: int) -> Lens:
    """Return a lens by its name or place; errors are those of `Lens.load`."""
    if isinstance(lens, Lens):
        return lens
    return Lens() if lens == LOGIT else Lens.load(lens, n_blocks, dim)


_OFF = 1e-3
"""Weight of the norm, over the median, below which a channel is left out of what is fitted."""

Part = TypeVar("Part", FinalNorm, OutputHead)


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
