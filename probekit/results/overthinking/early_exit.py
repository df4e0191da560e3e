"""Early exit: the score against the layers that were used, with thresholds chosen elsewhere.

Layer 0 are the embeddings, so a sentence that leaves at depth d has used d layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from probekit.metrics.contract import Counts
from probekit.results.overthinking.chosen_depth import choosers, chosen_on
from probekit.results.overthinking.depth_curves import CurveReport
from probekit.results.overthinking.depth_predictions import DepthPredictions
from probekit.results.overthinking.estimates import Bootstrap, Estimate
from probekit.results.overthinking.exit_rules import (
    RULES,
    TOLERANCE,
    Exits,
    FittedRule,
    layers_of,
    oracle,
    score_of,
)


@dataclass(frozen=True, kw_only=True)
class ExitPoint:
    """What leaving early comes to: means over the seeds.

    Attributes:
        rule: name of the rule; ``last`` is the whole model, ``oracle`` leaves at the first depth
            that has as many words right as any, else at the last.
        thresholds: in words: by seed, and of each half where halves chose; each once.
        score: in the metric.
        loss: score of the whole model less this one; in the metric's better direction.
        layers: mean layers that a sentence uses.
        saved: share of the model's layers that is not used.
    """

    rule: str
    thresholds: tuple[str, ...]
    score: Estimate
    loss: Estimate
    layers: Estimate
    saved: Estimate


@dataclass(frozen=True, kw_only=True)
class ExitCurve:
    """Score against mean layers of one rule, from its loosest threshold to never.

    Attributes:
        rule: name of the rule.
        layers: mean layers, one of each threshold.
        scores: in the metric.
    """

    rule: str
    layers: tuple[float, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class EarlyExit(CurveReport):
    """Early exit of one curve.

    Attributes:
        metric: the metric.
        chosen_on: the split that chose thresholds, or ``halves``: each half of the reported split
            has those of the other.
        tolerance: loss of score that was allowed where they were chosen.
        depths: ascending; the last is that of the whole model.
        n_sentences: sentences of the reported split.
        n_seeds: seeds.
        points: the whole model, each rule with its chosen threshold, and the oracle.
        curves: each rule over all of its thresholds.
    """

    metric: str
    chosen_on: str
    tolerance: float
    depths: tuple[int, ...]
    n_sentences: int
    n_seeds: int
    points: tuple[ExitPoint, ...]
    curves: tuple[ExitCurve, ...]


def measure_exits(
    reported: DepthPredictions,
    dev: DepthPredictions | None,
    bootstrap: Bootstrap,
    tolerance: float = TOLERANCE,
) -> EarlyExit:
    """Let the sentences of a split leave early by every rule.

    The threshold of a rule is the one with the fewest mean layers among those whose score is
    allowed where thresholds are chosen (of equally few the best score). Every seed has its own.

    Args:
        reported: the split that is reported.
        dev: the split that chooses; None chooses on each half of the reported one for the other.
        bootstrap: how sentences are resampled; its seed makes the halves.
        tolerance: loss of score that is allowed, against the last depth.

    Raises:
        RecordError: the side files hold no probabilities.
    """
    choosing = choosers(reported, dev, bootstrap.seed)
    chosen: dict[str, list[Exits]] = {}
    words: dict[str, tuple[str, ...]] = {}
    curves = []
    for name, rule in RULES.items():
        found = [
            FittedRule.of(rule, reported, choosing, seed) for seed in range(len(reported.seeds))
        ]
        picks = [one.choose(tolerance) for one in found]
        chosen[name] = [one.exits(pick) for one, pick in zip(found, picks, strict=True)]
        said = [w for one, pick in zip(found, picks, strict=True) for w in one.words(pick)]
        words[name] = tuple(dict.fromkeys(said))
        curves.append(_curve(name, reported, found))
    last = len(reported.depths) - 1
    seeds = range(len(reported.seeds))
    whole = [np.full(reported.n_sentences, last) for _ in seeds]
    chosen = {"last": whole, **chosen, "oracle": [oracle(reported, seed) for seed in seeds]}
    return EarlyExit(
        **reported.about,
        metric=reported.scorer.name,
        chosen_on=chosen_on(dev),
        tolerance=tolerance,
        n_sentences=reported.n_sentences,
        n_seeds=len(reported.seeds),
        points=_points(reported, chosen, words, bootstrap),
        curves=tuple(curves),
    )


def _curve(name: str, reported: DepthPredictions, found: Sequence[FittedRule]) -> ExitCurve:
    every = np.ones((1, reported.n_sentences))
    layers, scores = [], []
    for level in range(len(found[0].thresholds[0])):
        places = [one.exits([level] * len(one.choosers)) for one in found]
        layers.append(np.mean([layers_of(reported, one, every)[0] for one in places]))
        score = [score_of(reported, s, one, every)[0] for s, one in enumerate(places)]
        scores.append(np.mean(score))
    return ExitCurve(rule=name, layers=tuple(map(float, layers)), scores=tuple(map(float, scores)))


def _points(
    reported: DepthPredictions,
    chosen: dict[str, list[Exits]],
    words: dict[str, tuple[str, ...]],
    bootstrap: Bootstrap,
) -> tuple[ExitPoint, ...]:
    """Return score, loss, layers and share of layers saved of every rule, with intervals."""
    sign, deepest = reported.scorer.scale.sign, float(reported.depths[-1])

    def statistics(counts: Counts) -> Float64[np.ndarray, "samples k"]:
        found: list[np.ndarray] = []
        for places in chosen.values():  # the first is the whole model
            scores = [score_of(reported, seed, one, counts) for seed, one in enumerate(places)]
            layers = np.mean([layers_of(reported, one, counts) for one in places], axis=0)
            score = np.mean(scores, axis=0)
            whole = found[0] if found else score
            found += [score, sign * (whole - score), layers, 1 - layers / deepest]
        return np.column_stack(found)

    estimates = bootstrap.estimates(reported.groups, statistics)
    return tuple(
        ExitPoint(
            rule=name,
            thresholds=words.get(name, ()),
            score=estimates[4 * n],
            loss=estimates[4 * n + 1],
            layers=estimates[4 * n + 2],
            saved=estimates[4 * n + 3],
        )
        for n, name in enumerate(chosen)
    )
