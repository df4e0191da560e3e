"""What each layer would predict through a lens: of cached rows, or at each position of a text.

A tuned lens is a ridge regression of the direction of the last layer, which shrinks towards the
logit lens; held-out texts choose its strength by the divergence.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64, Shaped
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from probekit.backbone import inspect_backbone, load_backbone
from probekit.backbone.final_parts import read_output_head
from probekit.base.kinds import KINDS
from probekit.base.layers import parse_layers
from probekit.base.machine import pick_device
from probekit.base.notices import ProgressBar
from probekit.base.numbers import numpy_generator
from probekit.base.registry import PathName, typed_name
from probekit.errors import BackboneError, DataError, EntryError, OptionError
from probekit.features import FeatureView, Location, Splits, open_features
from probekit.measures.jacobian import fit_jacobian
from probekit.measures.lens_maps import (
    JACOBIAN,
    JACOBIANS,
    LOGIT,
    TUNED,
    Lens,
    LogitReader,
    Translator,
    check_no_other,
    named_lens,
)
from probekit.measures.measured_rows import drawn_places
from probekit.probe.model_parts import KeptBackbone
from probekit.results.comparison.resampling import Bootstrap, Estimate, Groups
from probekit.results.layer_scores import (
    STATISTICS,
    LayerPrediction,
    LensScores,
    PositionPrediction,
    TextPredictions,
)

ROWS = 2_000
"""Predictions that are scored, and that a lens is fitted on, unless told otherwise."""

STRENGTHS = tuple(10.0**power for power in range(-4, 3))
"""Of the ridge, times rows and the mean variance of a channel; infinity is the logit lens."""

_HELD_OUT = 0.2  # share of the texts that choose a strength
_LOGITS = 2**25  # of a block of rows


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
        folder = None if save is None else Path(save)
        how: dict[str, Any] = {"rows": rows, "seed": seed, "save": folder, "progress": progress}
        if lens == TUNED:
            lens, strengths = _tuned_lens(fitted, chosen, **how)
        else:
            lens = fit_jacobian(fitted.view.entry, device=device, **how)
    elif save is not None:
        raise OptionError("--save writes a lens that is fitted: give --lens tuned or jacobian.")
    lens = named_lens(lens, n_blocks, manifest.dim)
    chosen = lens.among(chosen, n_blocks, asked=layers != "all")
    with ProgressBar(total=len(drawn), desc=split, unit="row", shown=progress) as bar:
        measured = _measured(scored, lens, chosen, drawn, bar.report)
    groups, estimates = _estimates(measured, scored.view, drawn)
    return LensScores(
        model=manifest.model,
        task=manifest.task,
        split=split,
        lens=lens.name,
        rows=len(drawn),
        of_rows=len(scored.view),
        over=groups.drawn.text,
        strengths=strengths,
        layers=[
            LayerPrediction(layer=layer, **{name: next(estimates) for name in STATISTICS})
            for layer in chosen
        ],
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
    view: FeatureView,
    rows: Int64[np.ndarray, " rows"],
) -> tuple[Groups, Iterator[Estimate]]:
    """Return what is resampled, and every statistic's mean of each layer, one after the other.

    That is documents where they are known, else texts, of those that have rows.
    """
    texts, first, numbers = np.unique(_texts(view)[rows], return_index=True, return_inverse=True)
    groups = Groups(len(texts))
    if (shared := view.resampled) is not None:
        names = [shared.names[position] for position in view.owners[rows][first]]
        groups = Groups.named(len(texts), names, shared.column)
    n_rows = np.bincount(numbers).astype(np.float64)
    sums = np.zeros((len(texts), measured.shape[0] * measured.shape[2]))
    np.add.at(sums, numbers, measured.transpose(1, 0, 2).reshape(len(rows), -1))

    def means(counts: Float64[np.ndarray, "samples texts"]) -> np.ndarray:
        return np.asarray(counts @ sums / (counts @ n_rows)[:, None])

    return groups, iter(Bootstrap(samples=1_000).estimates(groups, means))


def _texts(view: FeatureView) -> Shaped[np.ndarray, " rows"]:
    """Return the text of each row; its readings under other masks are one."""
    return np.repeat(view.text_names, view.lengths)


def _tuned_lens(
    of: _LensRows,
    layers: Sequence[int],
    *,
    rows: int | None,
    seed: int,
    save: Path | None,
    progress: bool,
) -> tuple[Lens, dict[int, float]]:
    """Return a tuned lens, and the strength of each layer; infinite is the logit lens.

    Raises:
        OptionError: there is nothing to save, or another lens is there.
        DataError: there are too few texts to hold some out.
    """
    manifest, last = of.view.entry.manifest, of.reader.last
    solved = [layer for layer in layers if layer != last]
    if save is not None:
        check_no_other(save, JACOBIANS)
        if not solved:
            raise OptionError("--save: a tuned lens has maps of layers before the last.")
    fit, held_out = _divided(of.view, drawn_places(len(of.view), rows, seed, "lens"), seed)
    target = of.reader.direction(of.read(last, fit)).double()
    blocks = of.blocks(held_out)
    wanted = [of.log_p(Lens(), last, block) for block in blocks]
    translators: dict[int, Translator] = {}
    strengths: dict[int, float] = {}
    with ProgressBar(total=len(solved), desc="lens", unit="layer", shown=progress) as bar:
        for layer in solved:
            ridge = _ridge(of, layer, fit, target).items()
            lenses = {strength: Lens(TUNED, {layer: one}) for strength, one in ridge}
            lenses[math.inf] = Lens()
            divergence = {
                strength: sum(
                    float(_divergence(whole, of.log_p(one, layer, block)).sum())
                    for whole, block in zip(wanted, blocks, strict=True)
                )
                for strength, one in lenses.items()
            }
            finite = {n: value for n, value in divergence.items() if math.isfinite(value)}
            strengths[layer] = min(finite, key=lambda n: finite[n], default=math.inf)
            translators |= lenses[strengths[layer]].translators
            bar.report(1)
    lens = Lens(TUNED, translators)
    if save is not None:
        lens.save(save, str(manifest.model_info["name"]), last, manifest.dim)
    return lens, strengths


def _divided(
    view: FeatureView, rows: Int64[np.ndarray, " rows"], seed: int
) -> tuple[Int64[np.ndarray, " fit"], Int64[np.ndarray, " held"]]:
    """Divide rows by their text into those that a lens is fitted on, and held-out ones."""
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
    of: _LensRows, layer: int, rows: Int64[np.ndarray, " rows"], target: Float64[Tensor, "rows dim"]
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


def lens_of_text(
    model: PathName,
    text: str,
    *,
    lens: str | Lens = LOGIT,
    layers: str = "all",
    top: int = 5,
    device: str = "auto",
) -> TextPredictions:
    """Run a model over a text, and return what each layer would predict at each position.

    Args:
        model: Hub id, local folder or .gguf file, with an output head.
        text: of at most as many tokens as the model reads.
        lens: ``logit``, or where a lens lies that was saved.
        layers: which layers.
        top: tokens to return of each layer and position, or all if there are fewer.
        device: what computes.

    Raises:
        BackboneError: the model has no output head, or a head or final norm that is not understood.
        OptionError: a layer does not exist, the text is empty or too long, or the lens is of
            another model.
        MissingFileError: there is no such model or lens.
    """
    if lens in (TUNED, JACOBIAN):
        raise OptionError(f"--lens {lens} is fitted on a task: give the folder that --save wrote.")
    inspection = inspect_backbone(typed_name(model))
    info, tokenizer = inspection.info, inspection.text_tokenizer
    lens = named_lens(lens, info.n_blocks, info.dim)
    ids = torch.tensor(tokenizer(text)["input_ids"], dtype=torch.long)
    limit = info.identity.max_length
    if not 0 < len(ids) <= limit:
        raise OptionError(f"the text has {len(ids)} tokens; {info.name} reads 1 to {limit}.")
    chosen = lens.among(parse_layers(layers, info.n_blocks), info.n_blocks, asked=layers != "all")
    head, backbone = read_output_head(inspection), load_backbone(inspection, device=device)
    if inspection.structure.final_norm is not None and backbone.final_norm is None:
        raise BackboneError(
            f"model {info.name!r}: probekit does not understand its final norm, so it cannot apply "
            "a lens to layers before the last. Choose another model."
        )
    states = backbone.layers(ids[None], torch.tensor([len(ids)]), chosen)
    reader = LogitReader(backbone.final_norm, head, info.n_blocks).to(torch.device("cpu"))
    targets = ids[1:] if info.causal else ids
    of_layers = [
        _predicted(layer, reader.logits(lens, layer, state.float().cpu()), targets, tokenizer, top)
        for layer, (state,) in zip(chosen, states, strict=True)
    ]
    return TextPredictions(
        model=info.called,
        lens=lens.name,
        causal=info.causal,
        tokens=_decoded(tokenizer, ids.tolist()),
        positions=list(zip(*of_layers, strict=True)),
    )


def _predicted(
    layer: int,
    logits: Float[Tensor, "positions vocabulary"],
    targets: Int64[Tensor, " targets"],
    tokenizer: PreTrainedTokenizerFast,
    top: int,
) -> list[PositionPrediction]:
    """Return what a layer predicts at each position; the last ones may have no target."""
    found = []
    for position, p in enumerate(logits.log_softmax(1)):
        best, tokens = p.topk(min(top, len(p)))
        own = p[targets[position]] if position < len(targets) else None
        found.append(
            PositionPrediction(
                layer=layer,
                tokens=_decoded(tokenizer, tokens.tolist()),
                probabilities=best.exp().tolist(),
                rank=None if own is None else int((p > own).sum()) + 1,
                probability=None if own is None else float(own.exp()),
            )
        )
    return found


def _decoded(tokenizer: PreTrainedTokenizerFast, ids: Sequence[int]) -> list[str]:
    """Return each token by itself, as it stands in a text."""
    return [str(tokenizer.decode([number])) for number in ids]
