"""Lenses: what each layer would predict if the model's norm and output head read it.

The logit lens (nostalgebraist 2020) reads a layer as it is. A tuned lens (Belrose et al. 2023)
first adds an affine map of it. Ours is solved: ridge regression of the direction of the last layer,
which shrinks towards the logit lens; held-out texts choose its strength by the divergence.
"""

import json
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

from probekit.backbone import inspect_backbone, load_backbone
from probekit.backbone.final_parts import read_output_head
from probekit.base.kinds import KINDS, parse_layers
from probekit.base.machine import pick_device
from probekit.base.notices import ProgressBar
from probekit.base.numbers import numpy_generator
from probekit.base.registry import PathName, typed_name
from probekit.errors import DataError, EntryError, MissingFileError, OptionError
from probekit.features import FeatureView, Location, Splits, open_features
from probekit.probe.model_parts import FinalNorm, KeptBackbone, OutputHead
from probekit.results.comparison.resampling import Bootstrap, Groups
from probekit.results.lens_scores import LayerReading, LensScores, PlaceReading, TextReading

LOGIT, TUNED = "logit", "tuned"
ROWS = 2_000
"""Rows that are scored, and rows that a tuned lens is fitted on, unless told otherwise."""

STRENGTHS = tuple(10.0**power for power in range(-4, 3))
"""Of the ridge, times the mean variance of a channel; the logit lens is that of infinity."""

_HELD_OUT = 0.2
"""Share of the texts that choose a strength."""

_OFF = 1e-3
"""Weight of the norm, over the median, below which a channel is left out of what is fitted."""

_LOGITS = 2**25
"""Logits of a block of rows."""

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

    def save(self, folder: Path, model: str, n_blocks: int) -> None:
        """Write it as the package tuned-lens does; layers without a translator have zeros.

        Args:
            folder: is made where it is not there.
            model: name of the backbone.
            n_blocks: L; the lens has translators of the layers 0 to L - 1.
        """
        folder.mkdir(parents=True, exist_ok=True)
        dim = len(next(iter(self.translators.values()))[1])
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
class _Head:
    """What makes logits of layers: the model's own norm and output head.

    Attributes:
        norm: what a layer before the last goes through; None is nothing.
        head: makes logits.
        last: L.
    """

    norm: FinalNorm | None
    head: OutputHead
    last: int

    def to(self, device: torch.device) -> "_Head":
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


@dataclass(frozen=True, eq=False)
class _Reader:
    """Rows of a split, and what makes logits of them.

    Attributes:
        view: the rows and what they are to predict.
        head: makes logits of their layers.
        device: what computes.
    """

    view: FeatureView
    head: _Head
    device: torch.device

    @property
    def last(self) -> int:
        """L."""
        return self.head.last

    def rows(self, layer: int, chosen: Int64[np.ndarray, " rows"]) -> Float[Tensor, "rows dim"]:
        """Return some rows of a layer in float32."""
        return self.view.array.read(self.view.rows[chosen], [layer])[:, 0].float().to(self.device)

    def blocks(self, chosen: Int64[np.ndarray, " rows"]) -> list[Int64[np.ndarray, " some"]]:
        """Cut rows into blocks whose logits fit into memory."""
        size = max(_LOGITS // len(self.head.head.weight), 1)
        return [chosen[start : start + size] for start in range(0, len(chosen), size)]


def lens(
    model: PathName,
    task: PathName,
    *,
    lens: str | Lens = LOGIT,
    layers: str = "all",
    split: str = "test",
    fit_on: str = "train",
    rows: int | None = ROWS,
    seed: int = 0,
    save: PathName | None = None,
    location: Location | None = None,
    device: str = "auto",
    progress: bool = False,
) -> LensScores:
    """Score what each layer would predict, from the cached rows of language modelling.

    Args:
        model: the backbone, or the path of an entry.
        task: of language modelling, extracted with ``predicted`` and ``output-head``.
        lens: ``logit``; ``tuned``, which is solved on ``fit_on``; or a folder with one.
        layers: which layers.
        split: what is scored.
        fit_on: the split that a tuned lens is fitted on.
        rows: predictions that are scored, and fitted on; None is all.
        seed: of the rows that are drawn, and of the texts that are held out.
        save: folder to write a tuned lens to.
        location: where entries lie.
        device: what computes.
        progress: show progress on stderr.

    Raises:
        EntryNotFoundError: the cache does not hold the features.
        DataError: the task is not language modelling.
        EntryError: the entry holds no output head, or a norm that is not known.
        OptionError: a layer or split does not exist, or the lens is of another model.
        MissingFileError: there is no such lens.
    """
    where = torch.device(pick_device(device))
    location = Location() if location is None else location
    scored = _reader(open_features(model, task, None, location, fit_on=split), where)
    manifest = scored.view.entry.manifest
    chosen = [n for n in parse_layers(layers, scored.last) if n in scored.view.array.layers]
    if scored.last not in scored.view.array.layers:
        raise OptionError(f"{scored.view.entry.path} does not hold the last layer, {scored.last}.")
    strengths: dict[int, float] = {}
    if isinstance(lens, str) and lens == TUNED:
        if fit_on == split:
            raise OptionError(f"--lens tuned is fitted on {fit_on}: score another split.")
        fitted = _reader(open_features(model, task, None, location, fit_on=fit_on), where)
        with ProgressBar(total=len(chosen), desc="lens", unit="layer", shown=progress) as bar:
            lens, strengths = _solve(fitted, chosen, rows, seed, lambda: bar.report(1))
    else:
        lens = _named(lens, manifest.dim)
    if save is not None:
        if not lens.translators:
            raise OptionError("--save writes a tuned lens: give --lens tuned.")
        lens.save(Path(save), manifest.model, scored.last)
    drawn = _drawn(scored.view, rows, seed)
    with ProgressBar(total=len(drawn), desc=split, unit="row", shown=progress) as bar:
        readings = _read(scored, lens, chosen, drawn, bar.report)
    groups = _groups(scored.view)
    return LensScores(
        model=manifest.model,
        task=manifest.task,
        split=split,
        lens=lens.name,
        rows=len(drawn),
        of_rows=len(scored.view),
        over=groups.drawn.text,
        strengths=strengths,
        layers=_estimates(readings, chosen, scored.view.owners[drawn], groups),
    )


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
    lens = _named(lens, info.dim)
    ids = torch.tensor([tokenizer(text)["input_ids"]])
    if not 0 < ids.shape[1] <= info.identity.max_length:
        raise OptionError(
            f"the text has {ids.shape[1]} tokens, and {info.name} reads 1 to "
            f"{info.identity.max_length}."
        )
    chosen = parse_layers(layers, info.n_blocks)
    head, backbone = read_output_head(inspection), load_backbone(inspection, device=device)
    states = backbone.layers(ids, torch.tensor([ids.shape[1]]), chosen)
    reader = _Head(backbone.final_norm, head, info.n_blocks).to(torch.device("cpu"))
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


def _reader(features: Splits, device: torch.device) -> _Reader:
    """Return what reads the split to fit on, which `open_features` calls train."""
    if KINDS[features.kind].per != "prediction":
        raise DataError(
            f"{features.task.name}: a lens predicts the tokens of language modelling, and its "
            f"labels are {features.kind}. Extract the text with --kind language-modelling."
        )
    view = features.view("train")
    manifest, kept = view.entry.manifest, KeptBackbone(view.entry.backbone)
    head, norm = kept.output_head, kept.final_norm if manifest.final_norm else None
    if head.kind == "tied-input":
        raise EntryError(
            f"{view.entry.path}: its output head stands in for one that the model lacks (--tie "
            "input), so no layer was trained for it. Choose a model with an output head."
        )
    if manifest.final_norm and norm is None:
        raise EntryError(
            f"{view.entry.path}: the model has a final norm that is not understood, so no layer "
            "before the last can be read."
        )
    return _Reader(view, _Head(norm, head, manifest.n_blocks).to(device), device)


def _moved(part: Part, device: torch.device) -> Part:
    """Return a part of a model with its tensors on a device."""
    values = vars(part).items()
    moved: dict[str, Any] = {n: v.to(device) for n, v in values if isinstance(v, Tensor)}
    return replace(part, **moved)


def _named(lens: str | Lens, dim: int) -> Lens:
    """Return a lens by its name or folder; errors are those of `Lens.load`."""
    if isinstance(lens, Lens):
        return lens
    return Lens() if lens == LOGIT else Lens.load(lens, dim)


def _drawn(view: FeatureView, rows: int | None, seed: int) -> Int64[np.ndarray, " rows"]:
    """Return the places of the rows that are read, ascending."""
    if rows is not None and rows < 1:
        raise OptionError(f"--rows {rows}: expected at least 1, or 0 for all rows.")
    if rows is None or rows >= len(view):
        return np.arange(len(view))
    return np.sort(numpy_generator(seed, "lens").choice(len(view), rows, replace=False))


def _groups(view: FeatureView) -> Groups:
    """Return what intervals resample together: documents, where they are known, else texts."""
    texts = len(view.entry.examples)
    if view.resampled is None:
        return Groups(texts)
    return Groups.named(texts, view.resampled.names, view.resampled.column)


_STATISTICS = 5
"""Of each row and layer: loss, log rank, right, as the last layer, divergence from it."""


def _read(
    reader: _Reader,
    lens: Lens,
    layers: Sequence[int],
    rows: Int64[np.ndarray, " rows"],
    report: Callable[[int], object] = lambda count: None,
) -> Float64[np.ndarray, "layers rows statistics"]:
    """Return the statistics of each layer and row."""
    found = np.zeros((len(layers), len(rows), _STATISTICS))
    start = 0
    for block in reader.blocks(rows):
        targets = torch.from_numpy(np.asarray(reader.view.targets[block])).to(reader.device)
        last = reader.head.logits(lens, reader.last, reader.rows(reader.last, block)).log_softmax(1)
        for index, layer in enumerate(layers):
            logits = reader.head.logits(lens, layer, reader.rows(layer, block)).log_softmax(1)
            own = logits.gather(1, targets[:, None])
            columns = [
                -own[:, 0],
                (1.0 + (logits > own).sum(1)).log(),
                (logits.argmax(1) == targets).float(),
                (logits.argmax(1) == last.argmax(1)).float(),
                (last.exp() * (last - logits)).sum(1),
            ]
            of_layer = torch.stack([column.double() for column in columns], 1)
            found[index, start : start + len(block)] = of_layer.cpu().numpy()
        start += len(block)
        report(len(block))
    return found


def _estimates(
    readings: Float64[np.ndarray, "layers rows statistics"],
    layers: Sequence[int],
    texts: Int64[np.ndarray, " rows"],
    groups: Groups,
) -> list[LayerReading]:
    """Return the mean of every statistic of each layer, with its interval over groups of texts."""
    n_texts = groups.n_sentences
    n_rows = np.bincount(texts, minlength=n_texts).astype(np.float64)
    sums = np.zeros((n_texts, len(layers), _STATISTICS))
    np.add.at(sums, texts, readings.transpose(1, 0, 2))

    def means(counts: Float64[np.ndarray, "samples texts"]) -> np.ndarray:
        total = np.maximum(counts @ n_rows, 1.0)
        return np.asarray(counts @ sums.reshape(n_texts, -1) / total[:, None])

    estimates = iter(Bootstrap(samples=1_000).estimates(groups, means))
    return [LayerReading(layer, *(next(estimates) for _ in range(_STATISTICS))) for layer in layers]


def _solve(
    reader: _Reader,
    layers: Sequence[int],
    rows: int | None,
    seed: int,
    done: Callable[[], object],
) -> tuple[Lens, dict[int, float]]:
    """Return a tuned lens, and the strength of each layer; infinite is the logit lens."""
    drawn = _drawn(reader.view, rows, seed)
    texts = np.unique(reader.view.owners[drawn])
    held = numpy_generator(seed, "lens texts").permutation(texts)[: int(_HELD_OUT * len(texts))]
    if not len(held):
        raise DataError(
            f"{reader.view.entry.path}: {len(texts)} text{'s' * (len(texts) > 1)}, too few to hold "
            "some out that choose the strength of a tuned lens."
        )
    out = np.isin(reader.view.owners[drawn], held)
    fit, choose_on = drawn[~out], drawn[out]
    target = reader.head.direction(reader.rows(reader.last, fit)).double()
    translators: dict[int, Translator] = {}
    strengths: dict[int, float] = {}
    for layer in layers:
        if layer != reader.last:
            candidates = {math.inf: Lens()} | {
                strength: Lens(TUNED, {layer: solution})
                for strength, solution in _ridge(reader, layer, fit, target).items()
            }
            divergence = {
                strength: float(_read(reader, candidate, [layer], choose_on)[0, :, -1].mean())
                for strength, candidate in candidates.items()
            }
            strengths[layer] = min(divergence, key=lambda strength: divergence[strength])
            translators |= candidates[strengths[layer]].translators
        done()
    return Lens(TUNED, translators), strengths


def _ridge(
    reader: _Reader,
    layer: int,
    rows: Int64[np.ndarray, " rows"],
    target: Float64[Tensor, "rows dim"],
) -> dict[float, Translator]:
    """Return the translator of a layer at each strength.

    With ``s`` the scale at which ``s h`` is nearest to the target, ``B`` and ``c`` minimise
    ``|s h + B h + c - target|^2 + strength |B|^2``; the norm undoes the scale, so the translator is
    ``A = B / s`` and ``b = c / s``. Without a norm ``s`` is 1.
    """
    h = reader.rows(layer, rows).double()
    centred, wanted = h - h.mean(0), target - target.mean(0)
    scale = 1.0
    if reader.head.norm is not None:
        fitted = float((centred * wanted).sum() / centred.square().sum().clamp(min=1e-12))
        scale = fitted if fitted > 0 else float(wanted.std() / centred.std().clamp(min=1e-12))
    values, basis = torch.linalg.eigh(centred.T @ centred)
    cross = basis.T @ (centred.T @ (wanted - scale * centred))
    solutions = {}
    for strength in STRENGTHS:
        ridge = strength * values.clamp(min=0).mean()
        b = (basis @ (cross / (values.clamp(min=0) + ridge)[:, None])).T
        c = target.mean(0) - scale * h.mean(0) - b @ h.mean(0)
        solutions[strength] = ((b / scale).float(), (c / scale).float())
    return solutions
