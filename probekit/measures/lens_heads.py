"""Lenses over a model's own norm and output head, and what they make of a text.

The logit lens (nostalgebraist 2020) reads a layer as it is. A tuned lens (Belrose et al. 2023)
first adds an affine map of it.
"""

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

from probekit.backbone import inspect_backbone, load_backbone
from probekit.backbone.final_parts import read_output_head
from probekit.base.kinds import parse_layers
from probekit.base.registry import PathName, typed_name
from probekit.errors import MissingFileError, OptionError
from probekit.probe.model_parts import FinalNorm, OutputHead
from probekit.results.lens_scores import PlaceReading, TextReading

LOGIT, TUNED = "logit", "tuned"

_OFF = 1e-3
"""Weight of the norm, over the median, below which a channel is left out of what is fitted."""

_PARAMETERS, _ABOUT = "params.pt", "config.json"
"""Files of a lens as the package tuned-lens writes them."""

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
        folder.mkdir(parents=True, exist_ok=True)
        state: dict[str, Tensor] = {}
        for layer in range(n_blocks):
            zeros = torch.zeros(dim, dim), torch.zeros(dim)
            weight, bias = self.translators.get(layer, zeros)
            state |= {f"{layer}.weight": weight.clone(), f"{layer}.bias": bias.clone()}
        torch.save(state, folder / _PARAMETERS)
        about = {
            "base_model_name_or_path": model, "d_model": dim, "num_hidden_layers": n_blocks,
            "bias": True, "lens_type": "linear_tuned_lens",
        }  # fmt: skip
        (folder / _ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: PathName, dim: int) -> "Lens":
        """Read a lens that this or the package tuned-lens wrote; its pickle runs no code.

        Args:
            folder: with ``params.pt``.
            dim: D, the width of the model.

        Raises:
            MissingFileError: there is no such file.
            OptionError: it holds something else, or is of another width.
        """
        path = Path(folder) / _PARAMETERS
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            weights = {name.removesuffix(".weight"): value for name, value in state.items()
                       if name.endswith(".weight")}  # fmt: skip
            translators = {
                int(layer): (weight.float(), state.get(f"{layer}.bias", torch.zeros(dim)).float())
                for layer, weight in weights.items()
            }
        except FileNotFoundError:
            raise MissingFileError(f"--lens {folder}: there is no {path}.") from None
        except (pickle.UnpicklingError, ValueError, AttributeError, RuntimeError) as error:
            raise OptionError(f"--lens {folder}: {path} is no tuned lens ({error}).") from None
        shapes = {tuple(weight.shape) for weight, _ in translators.values()}
        if shapes != {(dim, dim)}:
            raise OptionError(
                f"--lens {folder}: its translators are {sorted(shapes)}, and the states are {dim} "
                "wide. It is of another model."
            )
        return cls(str(folder), translators)


@dataclass(frozen=True, eq=False)
class LensHead:
    """What makes logits of layers: the model's own norm and output head.

    Attributes:
        norm: what a layer before the last goes through; None is nothing.
        head: makes logits.
        last: L.
    """

    norm: FinalNorm | None
    head: OutputHead
    last: int

    def to(self, device: torch.device) -> "LensHead":
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


def named_lens(lens: str | Lens, dim: int) -> Lens:
    """Return a lens by its name or folder; errors are those of `Lens.load`."""
    if isinstance(lens, Lens):
        return lens
    return Lens() if lens == LOGIT else Lens.load(lens, dim)


def lens_of_text(
    model: PathName,
    text: str,
    *,
    lens: str | Lens = LOGIT,
    layers: str = "all",
    top: int = 5,
    device: str = "auto",
) -> TextReading:
    """Run a model over a text, and return what each layer would predict at each place.

    Args:
        model: Hub id, local folder or .gguf file, with an output head.
        text: as long as the model reads at most.
        lens: ``logit``, or the folder of a tuned lens.
        layers: which layers.
        top: tokens to return of each layer and place.
        device: what computes.

    Raises:
        BackboneError: the model has no output head, or one that is not understood.
        OptionError: a layer does not exist, the text is too long, or the lens is of another model.
        MissingFileError: there is no such model or lens.
    """
    inspection = inspect_backbone(typed_name(model))
    if lens == TUNED:
        raise OptionError("--lens tuned is fitted on a task: give the folder that --save wrote.")
    info, tokenizer = inspection.info, inspection.text_tokenizer
    lens = named_lens(lens, info.dim)
    ids = torch.tensor([tokenizer(text)["input_ids"]])
    if not 0 < ids.shape[1] <= info.identity.max_length:
        raise OptionError(
            f"the text has {ids.shape[1]} tokens, and {info.name} reads 1 to "
            f"{info.identity.max_length}."
        )
    chosen = parse_layers(layers, info.n_blocks)
    head, backbone = read_output_head(inspection), load_backbone(inspection, device=device)
    states = backbone.layers(ids, torch.tensor([ids.shape[1]]), chosen)
    reader = LensHead(backbone.final_norm, head, info.n_blocks).to(torch.device("cpu"))
    targets = ids[0, 1:] if info.causal else ids[0]
    places: list[list[PlaceReading]] = [[] for _ in range(ids.shape[1])]
    for layer, (state,) in zip(chosen, states, strict=True):
        logits = reader.logits(lens, layer, state.float().cpu()).log_softmax(1)
        best, words = logits.topk(top)
        for place, of_place in enumerate(places):
            own = logits[place, targets[place]] if place < len(targets) else None
            of_place.append(
                PlaceReading(
                    layer,
                    _decoded(tokenizer, words[place].tolist()),
                    best[place].exp().tolist(),
                    None if own is None else int((logits[place] > own).sum()) + 1,
                    None if own is None else float(own.exp()),
                )
            )
    return TextReading(
        model=info.called,
        lens=lens.name,
        causal=info.causal,
        tokens=_decoded(tokenizer, ids[0].tolist()),
        places=places,
    )


def _decoded(tokenizer: PreTrainedTokenizerFast, ids: Sequence[int]) -> list[str]:
    """Return each token by itself, as it stands in a text."""
    return [str(tokenizer.decode([number])) for number in ids]
