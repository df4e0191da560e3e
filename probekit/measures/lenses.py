"""What each layer of cached rows would predict through a lens, which may be solved on them.

A tuned lens is a ridge regression of the direction of the last layer, which shrinks towards the
logit lens; held-out texts choose its strength by the divergence.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from probekit.base.kinds import KINDS, parse_layers
from probekit.base.machine import pick_device
from probekit.base.notices import ProgressBar
from probekit.base.numbers import numpy_generator
from probekit.base.registry import PathName
from probekit.errors import DataError, EntryError, OptionError
from probekit.features import FeatureView, Location, Splits, open_features
from probekit.measures.lens_heads import LOGIT, TUNED, Lens, LensHead, Translator, named_lens
from probekit.probe.model_parts import KeptBackbone
from probekit.results.comparison.resampling import Bootstrap, Groups
from probekit.results.lens_scores import LayerReading, LensScores

ROWS = 2_000
"""Rows that are scored, and rows that a tuned lens is fitted on, unless told otherwise."""

STRENGTHS = tuple(10.0**power for power in range(-4, 3))
"""Of the ridge, times the mean variance of a channel; the logit lens is that of infinity."""

_HELD_OUT = 0.2
"""Share of the texts that choose a strength."""

_LOGITS = 2**25
"""Logits of a block of rows."""


@dataclass(frozen=True, eq=False)
class _Reader:
    """Rows of a split, and what makes logits of them.

    Attributes:
        view: the rows and what they are to predict.
        head: makes logits of their layers.
        device: what computes.
    """

    view: FeatureView
    head: LensHead
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
    stored = scored.view.array.layers
    chosen = stored if layers == "all" else parse_layers(layers, scored.last)
    strengths: dict[int, float] = {}
    if isinstance(lens, str) and lens == TUNED:
        if fit_on == split:
            raise OptionError(f"--lens tuned is fitted on {fit_on}: score another split.")
        fitted = _reader(open_features(model, task, None, location, fit_on=fit_on), where)
        with ProgressBar(total=len(chosen), desc="lens", unit="layer", shown=progress) as bar:
            lens, strengths = _solve(fitted, chosen, rows, seed, lambda: bar.report(1))
    else:
        lens = named_lens(lens, manifest.dim)
    if save is not None:
        if lens.name != TUNED:
            raise OptionError("--save writes a tuned lens: give --lens tuned.")
        lens.save(Path(save), manifest.model, scored.last, manifest.dim)
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
    return _Reader(view, LensHead(norm, head, manifest.n_blocks).to(device), device)


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
