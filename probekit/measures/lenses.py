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
from jaxtyping import Float, Float64, Int64, Shaped
from torch import Tensor

from probekit.base.kinds import KINDS, parse_layers
from probekit.base.machine import pick_device
from probekit.base.notices import ProgressBar
from probekit.base.numbers import numpy_generator
from probekit.base.registry import PathName
from probekit.errors import DataError, EntryError, OptionError
from probekit.features import FeatureView, Location, Splits, open_features
from probekit.measures.jacobian import fit_jacobian
from probekit.measures.lens_maps import (
    JACOBIAN,
    JACOBIANS,
    LOGIT,
    TUNED,
    Lens,
    Translator,
    check_no_other,
    named_lens,
)
from probekit.measures.logit_reader import LogitReader
from probekit.measures.measured_rows import drawn_places
from probekit.probe.model_parts import KeptBackbone
from probekit.results.comparison.resampling import Bootstrap, Groups
from probekit.results.layer_scores import STATISTICS, LayerPrediction, LensScores

ROWS = 2_000
"""Predictions that are scored, and that a lens is fitted on, unless told otherwise."""

STRENGTHS = tuple(10.0**power for power in range(-4, 3))
"""Of the ridge, times rows and the mean variance of a channel; infinity is the logit lens."""

_HELD_OUT = 0.2
"""Share of the texts that choose a strength."""

_LOGITS = 2**25
"""Logits of a block of rows."""


@dataclass(frozen=True, eq=False)
class _LensRows:
    """Rows of a split, and what makes logits of them.

    Attributes:
        view: the rows and what they are to predict.
        reader: makes logits of their layers.
        device: what computes.
    """

    view: FeatureView
    reader: LogitReader
    device: torch.device

    def read(self, layer: int, rows: Int64[np.ndarray, " rows"]) -> Float[Tensor, "rows dim"]:
        """Return some rows of a layer in float32."""
        return self.view.array.read(self.view.rows[rows], [layer])[:, 0].float().to(self.device)

    def log_p(
        self, lens: Lens, layer: int, rows: Int64[np.ndarray, " rows"]
    ) -> Float[Tensor, "rows vocabulary"]:
        """Return the log-probability of every token, in nats."""
        return self.reader.logits(lens, layer, self.read(layer, rows)).log_softmax(1)

    def blocks(self, rows: Int64[np.ndarray, " rows"]) -> list[Int64[np.ndarray, " some"]]:
        """Cut rows into blocks whose logits fit into memory."""
        size = max(_LOGITS // len(self.reader.head.weight), 1)
        return [rows[start : start + size] for start in range(0, len(rows), size)]


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
        lens: ``logit``; ``tuned`` or ``jacobian``, which are fitted on ``fit_on``; or where one
            lies that was saved.
        layers: which layers; those of a Jacobian lens begin with the first block's.
        split: what is scored.
        fit_on: the split that a lens is fitted on.
        rows: predictions that are drawn to be scored, and to be fitted on; None is all. A Jacobian
            lens is fitted on all positions of whole texts, until they are so many.
        seed: of the rows and texts that are drawn, and of the texts that are held out.
        save: folder to write the fitted lens to.
        location: where entries lie.
        device: what computes.
        progress: show progress on stderr.

    Raises:
        EntryNotFoundError: the cache does not hold the features.
        DataError: the task is not language modelling.
        EntryError: the entry holds no output head, or a norm that is not known.
        OptionError: a layer or split does not exist, or the lens is of another model.
        MissingFileError: there is no such lens.
        BackboneError: the model has no Jacobian lens, or is not that of the entry.
    """
    where = torch.device(pick_device(device))
    location = Location() if location is None else location
    scored = _lens_rows(open_features(model, task, None, location, fit_on=split), where)
    manifest, n_blocks = scored.view.entry.manifest, scored.reader.last
    chosen = scored.view.array.layers if layers == "all" else parse_layers(layers, n_blocks)
    scored.view.array.read(slice(0, 0), chosen)  # before a lens is fitted
    drawn = drawn_places(len(scored.view), rows, seed, "lens")
    strengths: dict[int, float] = {}
    if lens in (TUNED, JACOBIAN):
        if fit_on == split:
            raise OptionError(f"--lens {lens} is fitted on {fit_on}: score another split.")
        if lens == JACOBIAN and layers != "all" and 0 in chosen:
            raise OptionError(f"--layers {layers}: a Jacobian lens has maps from layer 1 on.")
        fitted = _lens_rows(open_features(model, task, None, location, fit_on=fit_on), where)
        how = _Fit(rows, seed, None if save is None else Path(save), progress)
        if lens == TUNED:
            lens, strengths = _tuned_lens(fitted, chosen, how)
        else:
            lens = fit_jacobian(fitted.view.entry, device=device, **vars(how))
    elif save is not None:
        raise OptionError("--save writes a lens that is fitted: give --lens tuned or jacobian.")
    lens = named_lens(lens, n_blocks, manifest.dim)
    chosen = lens.among(chosen, n_blocks, asked=layers != "all")
    with ProgressBar(total=len(drawn), desc=split, unit="row", shown=progress) as bar:
        measured = _measured(scored, lens, chosen, drawn, bar.report)
    groups, estimated = _estimates(measured, chosen, scored.view, drawn)
    return LensScores(
        model=manifest.model,
        task=manifest.task,
        split=split,
        lens=lens.name,
        rows=len(drawn),
        of_rows=len(scored.view),
        over=groups.drawn.text,
        strengths=strengths,
        layers=estimated,
    )


def _lens_rows(features: Splits, device: torch.device) -> _LensRows:
    """Return the rows of the split to fit on, which `open_features` calls train."""
    if KINDS[features.kind].per != "prediction":
        raise DataError(
            f"{features.task.name} has {features.kind} labels, but a lens needs language "
            "modelling. Extract the text with --kind language-modelling."
        )
    view = features.view("train")
    manifest, kept = view.entry.manifest, KeptBackbone(view.entry.backbone)
    head, norm = kept.output_head, kept.final_norm if manifest.final_norm else None
    if head.kind == "tied-input":
        raise EntryError(
            f"{view.entry.path}: its output head was made from the input embeddings (--tie input), "
            "so the model was not trained with it. Choose a model saved with its output head."
        )
    if manifest.final_norm and norm is None:
        raise EntryError(
            f"{view.entry.path}: probekit does not understand the model's final norm, so it cannot "
            "apply a lens to layers before the last. Choose another model."
        )
    return _LensRows(view, LogitReader(norm, head, manifest.n_blocks).to(device), device)


def _measured(
    of: _LensRows,
    lens: Lens,
    layers: Sequence[int],
    rows: Int64[np.ndarray, " rows"],
    report: Callable[[int], object],
) -> Float64[np.ndarray, "layers rows statistics"]:
    """Return ``STATISTICS`` of each layer and row."""
    found = np.zeros((len(layers), len(rows), len(STATISTICS)))
    start = 0
    for block in of.blocks(rows):
        targets = torch.from_numpy(np.asarray(of.view.targets[block])).to(of.device)
        last = of.log_p(lens, of.reader.last, block)
        said = last.argmax(1)
        settled = torch.ones(len(block), dtype=torch.bool, device=of.device)
        for index, layer in reversed(list(enumerate(layers))):
            p = last if layer == of.reader.last else of.log_p(lens, layer, block)
            own = p.gather(1, targets[:, None])
            best = p.argmax(1)
            agrees = best == said
            settled &= agrees
            of_row = {
                "loss": -own[:, 0],
                "log_rank": (1.0 + (p > own).sum(1)).log(),
                "accuracy": best == targets,
                "agreement": agrees,
                "settled": settled,
                "divergence": _divergence(last, p),
            }
            columns = [of_row[name].double() for name in STATISTICS]
            found[index, start : start + len(block)] = torch.stack(columns, 1).cpu().numpy()
        start += len(block)
        report(len(block))
    return found


def _divergence(
    last: Float[Tensor, "rows vocabulary"], p: Float[Tensor, "rows vocabulary"]
) -> Float[Tensor, " rows"]:
    """Return KL(last, p) of each row in nats, given log-probabilities."""
    return (last.exp() * (last - p)).sum(1)


def _estimates(
    measured: Float64[np.ndarray, "layers rows statistics"],
    layers: Sequence[int],
    view: FeatureView,
    rows: Int64[np.ndarray, " rows"],
) -> tuple[Groups, list[LayerPrediction]]:
    """Return the mean of every statistic of each layer, with its interval.

    Documents are resampled where they are known, else texts, of those that have rows.

    Returns:
        what was resampled, and the means.
    """
    texts, first, numbers = np.unique(_texts(view)[rows], return_index=True, return_inverse=True)
    groups = Groups(len(texts))
    if (shared := view.resampled) is not None:
        names = [shared.names[position] for position in view.owners[rows][first]]
        groups = Groups.named(len(texts), names, shared.column)
    n_rows = np.bincount(numbers).astype(np.float64)
    sums = np.zeros((len(texts), len(layers), len(STATISTICS)))
    np.add.at(sums, numbers, measured.transpose(1, 0, 2))

    def means(counts: Float64[np.ndarray, "samples texts"]) -> np.ndarray:
        return np.asarray(counts @ sums.reshape(len(texts), -1) / (counts @ n_rows)[:, None])

    estimates = iter(Bootstrap(samples=1_000).estimates(groups, means))
    return groups, [
        LayerPrediction(layer=layer, **{name: next(estimates) for name in STATISTICS})
        for layer in layers
    ]


def _texts(view: FeatureView) -> Shaped[np.ndarray, " rows"]:
    """Return the text of each row; its readings under other masks are one."""
    return np.repeat(view.text_names, view.lengths)


@dataclass(frozen=True)
class _Fit:
    """How a lens is fitted; see `lens`."""

    rows: int | None
    seed: int
    save: Path | None
    progress: bool


def _tuned_lens(of: _LensRows, layers: Sequence[int], how: _Fit) -> tuple[Lens, dict[int, float]]:
    """Return a tuned lens, and the strength of each layer; infinite is the logit lens.

    Raises:
        OptionError: there is nothing to save, or another lens is there.
    """
    manifest, last = of.view.entry.manifest, of.reader.last
    if how.save is not None:
        check_no_other(how.save, JACOBIANS)
        if not set(layers) - {last}:
            raise OptionError("--save: a tuned lens has maps of layers before the last.")
    with ProgressBar(total=len(layers), desc="lens", unit="layer", shown=how.progress) as bar:
        lens, strengths = _solve(of, layers, how.rows, how.seed, lambda: bar.report(1))
    if how.save is not None:
        lens.save(how.save, str(manifest.model_info["name"]), last, manifest.dim)
    return lens, strengths


def _solve(
    of: _LensRows,
    layers: Sequence[int],
    rows: int | None,
    seed: int,
    done: Callable[[], object],
) -> tuple[Lens, dict[int, float]]:
    """Return a tuned lens, and the strength of each layer; infinite is the logit lens."""
    fit, held_out = _divided(of.view, drawn_places(len(of.view), rows, seed, "lens"), seed)
    target = of.reader.direction(of.read(of.reader.last, fit)).double()
    last = [of.log_p(Lens(), of.reader.last, block) for block in of.blocks(held_out)]
    translators: dict[int, Translator] = {}
    strengths: dict[int, float] = {}
    for layer in layers:
        if layer != of.reader.last:
            solved = _ridge(of, layer, fit, target)
            lenses = {strength: Lens(TUNED, {layer: one}) for strength, one in solved.items()}
            lenses[math.inf] = Lens()
            divergence = {
                strength: sum(
                    float(_divergence(whole, of.log_p(one, layer, block)).sum())
                    for whole, block in zip(last, of.blocks(held_out), strict=True)
                )
                for strength, one in lenses.items()
            }
            finite = {n: value for n, value in divergence.items() if math.isfinite(value)}
            strengths[layer] = min(finite, key=lambda n: finite[n], default=math.inf)
            translators |= lenses[strengths[layer]].translators
        done()
    return Lens(TUNED, translators), strengths


def _divided(
    view: FeatureView, rows: Int64[np.ndarray, " rows"], seed: int
) -> tuple[Int64[np.ndarray, " fit"], Int64[np.ndarray, " held"]]:
    """Divide rows by their text into those that a lens is fitted on, and held-out ones.

    Raises:
        DataError: there are too few texts.
    """
    owners = _texts(view)[rows]
    texts = numpy_generator(seed, "lens texts").permutation(np.unique(owners))
    held = texts[: int(_HELD_OUT * len(texts))]
    if not len(held):
        raise DataError(
            f"{view.entry.path}: {len(texts)} text{'s are' if len(texts) > 1 else ' is'} too few "
            "to hold some out for choosing the strength of a tuned lens. Raise --rows, or extract "
            "more texts."
        )
    out = np.isin(owners, held)
    return rows[~out], rows[out]


def _ridge(
    of: _LensRows,
    layer: int,
    rows: Int64[np.ndarray, " rows"],
    target: Float64[Tensor, "rows dim"],
) -> dict[float, Translator]:
    """Return the translator of a layer at each strength.

    With n rows, v the mean variance of a channel and s the scale at which ``s h`` is nearest to the
    target, B (D, D) and c (D,) minimise the sum over rows of ``|s h + B h + c - target|^2``, plus
    ``strength n v |B|^2``. The final norm removes the scale, so the translator is ``A = B / s``,
    ``b = c / s``. Without a norm s is 1.
    """
    h = of.read(layer, rows).double()
    centred, wanted = h - h.mean(0), target - target.mean(0)
    scale = 1.0
    if of.reader.norm is not None:
        fitted = float((centred * wanted).sum() / centred.square().sum().clamp(min=1e-12))
        scale = fitted if fitted > 0 else float(wanted.std() / centred.std().clamp(min=1e-12))
    values, basis = torch.linalg.eigh(centred.T @ centred)
    values = values.clamp(min=0)
    cross = basis.T @ (centred.T @ (wanted - scale * centred))
    solutions = {}
    for strength in STRENGTHS:
        matrix = (basis @ (cross / (values + strength * values.mean())[:, None])).T
        offset = target.mean(0) - scale * h.mean(0) - matrix @ h.mean(0)
        solutions[strength] = ((matrix / scale).float(), (offset / scale).float())
    return solutions
