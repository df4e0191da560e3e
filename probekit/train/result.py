"""What training returns: a frozen value, never a half-trained module."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from probekit.base.kinds import KINDS
from probekit.base.markup import html_pairs, html_view
from probekit.features import FeatureView
from probekit.metrics import alarm_threshold
from probekit.probe.decoders.contract import LabelSetDecoder
from probekit.results.summaries.typeset import html_layers
from probekit.train.member import Member, count_parameters
from probekit.train.sampling import class_counts, type_names
from probekit.train.scoring import (
    MOST_CLASSES,
    Assessed,
    RowProbabilities,
    ScoredSplit,
    confusion_of,
)
from probekit.train.stream import StreamSpec

_FALLING = 0.99
"""The training loss still falls where its last mean is below this share of the one before."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FitResult:
    """The outcome of one training run.

    Attributes:
        state: tensors of the best checkpoint (CPU): ``head.*``, ``decoder.*``,
            ``normalization.*``.
        modules: dict forms of head, decoder and normalisation, by those names.
        layers: layers that the head reads, ascending.
        eval_score: best dev score, 0..1.
        eval_last: dev score after the last step.
        best_step: step of the best dev score.
        best_epoch: the same in epochs; a fraction inside an epoch.
        test_score: test score of the best checkpoint; ``None`` without a test split.
        scores: all scores of the best checkpoint, as ``dev/NAME``, ``test/NAME``: the metric's, and
            ``loss``, ``ece`` and ``brier`` of probabilities, or the ``loss`` of numbers.
        curve: (step, mean training loss since the last point, dev score).
        weights: weight of each layer by the best checkpoint, after softmax where there is one;
            the mean over the dev rows where rows differ.
        raw_weights: the same before softmax; ``None`` for a head without one.
        class_weights: weight of each layer, averaged over the dev rows of each gold class; empty
            for a head that gives all rows the same weights.
        initial_weights: mean weight of each layer over the dev rows before anything was trained;
            empty for a head that gives all rows the same weights.
        shares: share of each layer in the variance of the dev logits; empty where the logits are no
            sum over layers, or do not vary.
        ablation: dev loss of a row without a layer less that with all, by layer, on request.
        ablated: ``mean`` where that was found, by the mean of a layer's rows in their place.
        diverged: whether the loss or a trained value ceased to be finite. The best checkpoint is
            from before; where none was, the scores are arbitrary, and weights that are not finite
            are left out.
        diagnosis: how the fit went, by name, as a record holds it.
        confusion: dev rows by gold class (``rows``) and predicted class (``columns``): ``counts``;
            ``None`` where no classes are predicted.
        n_params: trained values, head and decoder together.
        n_head_params: trained values of the head alone.
        n_backbone_params: trained values of the model, of `n_params`; 0 where it is not trained.
        backbone_share: their share of all values of the model, or of those that differ; see
            `Method.changed`.
        train_seconds: seconds spent in the steps of this run, its share of reading included;
            linear probes that step together share their time equally.
        predictions: class number, value or loss of each row by the best checkpoint, by split name,
            on request; of sets of labels a score per label, above 0 where the row has it.
        probabilities: what the probabilities of these rows say, likewise; none of numbers.
    """

    state: Mapping[str, Tensor] = field(repr=False)
    modules: Mapping[str, Mapping[str, Any]]
    layers: tuple[int, ...]
    eval_score: float
    eval_last: float
    best_step: int
    best_epoch: float
    test_score: float | None
    scores: Mapping[str, float]
    curve: tuple[tuple[int, float, float], ...]
    weights: Mapping[int, float]
    raw_weights: Mapping[int, float] | None
    class_weights: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    initial_weights: Mapping[int, float] = field(default_factory=dict)
    shares: Mapping[int, float] = field(default_factory=dict)
    ablation: Mapping[int, float] = field(default_factory=dict)
    ablated: str | None = None
    diverged: bool = False
    diagnosis: Mapping[str, Any] = field(default_factory=dict)
    confusion: Mapping[str, Any] | None = None
    n_params: int
    n_head_params: int
    n_backbone_params: int = 0
    backbone_share: float = 0.0
    train_seconds: float
    predictions: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    probabilities: Mapping[str, RowProbabilities] = field(default_factory=dict, repr=False)

    def _repr_html_(self) -> str:
        """Return scores and layer measures for a notebook."""
        scores = {name: f"{score:.4f}" for name, score in self.scores.items()}
        measures = {"weight": self.weights, "share": self.shares, "ablation": self.ablation}
        notes = ["diverged: the loss or a trained value is no longer finite"] * self.diverged
        title = f"{self.modules['head']['name']}, fitted"
        return html_view(html_pairs(scores), html_layers(measures), title=title, notes=notes)


def freeze(
    member: Member,
    stream: StreamSpec,
    dev: ScoredSplit,
    counted: Mapping[str, Any],
    others: Mapping[str, ScoredSplit],
    assessed: Mapping[str, Assessed],
    *,
    keep: bool,
) -> FitResult:
    """Return the result of a member at its best checkpoint.

    Args:
        member: trained, and scored on dev.
        stream: what it was trained on.
        dev: the dev split.
        counted: what its layers count there, by the names of `FitResult`.
        others: other splits, by name.
        assessed: what it says of dev and of each of them.
        keep: keep what it says.
    """
    best, metric = member.best, dev.metric.name
    assert best is not None, "no checkpoint was scored"
    scores = {
        name: split.scores(assessed[name])
        | (dict(best.scores) if split is dev else split.scorer.score(assessed[name].predicted))
        for name, split in {"dev": dev, **others}.items()
    }
    if (odds := dev.odds_of_second(assessed["dev"])) is not None:
        threshold = alarm_threshold(*odds)
        for name, split in others.items():
            scores[name] |= split.alarm_shares(assessed[name], threshold)
    probe, normalization = member.probe, member.normalization.cut(member.spec.layers)
    n_tuned = 0 if probe.tuned is None else count_parameters(probe.tuned)
    parts = {"head": probe.head, "decoder": probe.decoder, "normalization": normalization}
    if probe.tuned is not None and n_tuned:
        parts["backbone"] = probe.tuned
    predictions = {name: split.predicted for name, split in assessed.items()}
    predictions["dev"] = best.predicted  # on a GPU another pass over dev may move the last bits
    of_splits = {name: split.probabilities for name, split in assessed.items()}
    probabilities = {name: values for name, values in of_splits.items() if values is not None}
    return FitResult(
        state={
            f"{part}.{name}": value.detach().cpu().clone()
            for part, module in parts.items()
            for name, value in module.state_dict().items()
        },
        modules={
            "head": member.spec.head.to_json(),
            "decoder": member.spec.decoder.to_json(),
            "normalization": normalization.to_json(),
        },
        layers=member.spec.layers,
        eval_score=best.scores[metric],
        eval_last=member.last_score,
        best_step=best.step,
        best_epoch=best.step / max(stream.steps_per_epoch, 1),
        test_score=scores.get("test", {}).get(metric),
        scores={f"{split}/{name}": n for split, of in scores.items() for name, n in of.items()},
        curve=tuple(member.curve),
        **counted,
        diagnosis=diagnose(member, stream, dev.view),
        confusion=confusion_of(dev, best.predicted),
        n_params=count_parameters(probe),
        n_head_params=count_parameters(probe.head),
        n_backbone_params=n_tuned,
        backbone_share=0.0 if probe.tuned is None else probe.tuned.changed,
        train_seconds=member.reading.seconds + member.stepping.seconds,
        predictions=predictions if keep else {},
        probabilities=probabilities if keep else {},
    )


def diagnose(member: Member, stream: StreamSpec, dev: FeatureView) -> dict[str, Any]:
    """Return what is worth knowing of a fit, by the names that `results.diagnosis` reads.

    Args:
        member: trained and scored.
        stream: what it was trained on.
        dev: the rows that its best state predicted.
    """
    best, labels, diagnosis = member.best, stream.train.labels, dict(member.solved)
    assert best is not None, "no checkpoint was scored"
    if not diagnosis and len(member.curve) > 1:  # whether more steps might have helped
        (_, before, _), (_, last, _) = member.curve[-2:]
        diagnosis["best_is_last"] = best.step == stream.total_steps
        diagnosis["falling"] = last < _FALLING * before
    decoder = member.probe.decoder
    if isinstance(decoder, LabelSetDecoder):
        diagnosis["thresholds_by"] = "F1 on dev"
        if len(labels) <= MOST_CLASSES:
            chosen = decoder.thresholds.sigmoid().tolist()
            diagnosis |= {"labels": list(labels.names), "thresholds": chosen}
    if member.selection_score is not None:
        diagnosis["selection_score"] = member.selection_score
    if len(labels):  # which classes the draw lacks, and whether one alone is predicted
        counts, names = class_counts(stream.train), set(type_names(labels.names)) - {"O"}
        decided = best.predicted > 0 if dev.of_sets else best.predicted
        diagnosis["one_class"] = len(np.unique(decided, axis=0)) == 1 and len(dev) > 1
        diagnosis["absent"] = sum(counts.get(name, 0) == 0 for name in names)
        diagnosis["single"] = sum(counts.get(name, 0) == 1 for name in names)
    elif KINDS[dev.kind].targets == "numbers" and len(dev) > 1:
        diagnosis["one_value"] = bool(np.ptp(best.predicted) == 0 or np.ptp(dev.targets) == 0)
    return diagnosis
