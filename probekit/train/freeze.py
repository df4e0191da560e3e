"""Turn a trained member into a frozen result."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor, nn

from probekit.features import FeatureView
from probekit.probe.heads import LayerWeights
from probekit.train.fit_diagnosis import diagnose
from probekit.train.member import Member
from probekit.train.probe import count_parameters
from probekit.train.result import FitResult
from probekit.train.stream import StreamSpec


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What was found with a member's best checkpoint.

    Attributes:
        weights: its layer weights on dev.
        by_class: the same, averaged over the dev rows of each gold class.
        confusion: dev rows by gold and predicted class; ``None`` where there are no classes.
        predicted: class number, value or loss of each row of other splits, by name.
        scores: the metric's scores on those splits.
    """

    weights: LayerWeights
    by_class: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    confusion: Mapping[str, Any] | None = None
    predicted: Mapping[str, np.ndarray] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def freeze(
    member: Member,
    outcome: Outcome,
    metric: str,
    stream: StreamSpec,
    predictions: bool,
    view: FeatureView,
) -> FitResult:
    """Return the result of a member at its best checkpoint.

    Args:
        member: trained and scored.
        outcome: what its best checkpoint does.
        metric: name of the main score.
        stream: what it was trained on.
        predictions: keep what was predicted.
        view: the dev rows.
    """
    best = member.best
    assert best is not None, "no checkpoint was scored"
    found = {"dev": best.predicted, **outcome.predicted}
    by_split = {"dev": best.scores, **outcome.scores}
    normalization = member.normalization.cut(member.spec.layers)
    head, decoder = member.probe.head, member.probe.decoder
    weights, raw_weights = outcome.weights.by_layer(), outcome.weights.raw_by_layer()
    class_weights = outcome.by_class
    weighs = all(map(math.isfinite, [*weights.values(), *(raw_weights or {}).values()]))
    if not weighs:  # huge values may be finite, and what is computed from them not
        weights, raw_weights, class_weights = {}, None, {}
    return FitResult(
        state=_state({"head": head, "decoder": decoder, "normalization": normalization}),
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
        test_score=outcome.scores.get("test", {}).get(metric),
        scores={
            f"{split}/{name}": score
            for split, scores in by_split.items()
            for name, score in scores.items()
        },
        curve=tuple(member.curve),
        weights=weights,
        raw_weights=raw_weights,
        class_weights=class_weights,
        diverged=member.diverged or not weighs,
        diagnosis=diagnose(member, stream, view),
        confusion=outcome.confusion,
        n_params=count_parameters(member.probe),
        n_head_params=count_parameters(head),
        train_seconds=member.seconds,
        predictions=found if predictions else {},
    )


def _state(modules: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    return {
        f"{name}.{key}": value.detach().cpu().clone()
        for name, module in modules.items()
        for key, value in module.state_dict().items()
    }
