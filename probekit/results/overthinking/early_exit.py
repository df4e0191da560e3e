"""Early exit: the score against the layers that were used, with thresholds chosen elsewhere.

The probe of each depth is an exit. A rule is a signal of every depth, and a threshold: a sentence
leaves at the first depth whose signal reaches it, else at the last. A transformer computes all
words of a sentence together, so that it leaves as a whole, when its least sure word may. Layer 0
are the embeddings, so a sentence that leaves at depth d has used d layers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int64

from probekit.errors import OptionError
from probekit.metrics import scale_of
from probekit.metrics.contract import Counts, per_example
from probekit.results.comparison.resampling import Bootstrap, Estimate
from probekit.results.overthinking.depth_predictions import (
    CurveReport,
    DepthPredictions,
    depth_curves,
    probabilities_of,
    read_reported,
)
from probekit.results.overthinking.measure import Chooser, choosers, chosen_on
from probekit.results.record import Record
from probekit.results.summaries.typeset import Column, text_table
from probekit.results.summaries.wording import metric_text

Signal = Float64[np.ndarray, "depths sentences"]
Exits = Int64[np.ndarray, " sentences"]
"""The place among the depths at which each sentence leaves."""

Thresholds = Float64[np.ndarray, " levels"]

LEVELS = 41
"""Thresholds of a signal that has any value: its quantiles 0, 1/40, ..., 1, besides never."""

TOLERANCE = 0.01
"""Loss of score that is allowed where thresholds are chosen: one point of a percentage."""

_ROUNDING = 1e-12  # a loss of exactly the tolerance is allowed


@dataclass(frozen=True, kw_only=True)
class ExitRule:
    """How sentences leave early.

    Attributes:
        text: what tables and legends call it.
        signal: predictions and the place of a seed to its signal; the larger, the sooner a sentence
            leaves.
        thresholds: a signal and the depths to as many thresholds whatever the signal, ascending.
        word: a threshold as a table prints it.
    """

    text: str
    signal: Callable[[DepthPredictions, int], Signal]
    thresholds: Callable[[Signal, Sequence[int]], Thresholds]
    word: str


def _confidence(probes: DepthPredictions, seed: int) -> Signal:
    """Return the probability of the most probable class, of the least sure word."""
    probabilities = probabilities_of(probes, seed)
    return _per_sentence(probes, np.stack([values.max(1) for values, _ in probabilities]))


def _unchanged(probes: DepthPredictions, seed: int) -> Signal:
    """Return over how many depths in a row no word's prediction changed."""
    # Predictions A A B B B of one text: 0 1 0 1 2.
    predicted = probes.predicted[seed]
    same = _per_sentence(probes, (predicted[1:] == predicted[:-1]).astype(np.float64)) > 0
    counts = np.zeros((len(predicted), same.shape[1]))
    for depth, unchanged in enumerate(same, start=1):
        counts[depth] = (counts[depth - 1] + 1) * unchanged
    return counts


def _depth(probes: DepthPredictions, seed: int) -> Signal:
    """Return the depth itself, of all sentences."""
    return np.repeat(np.array(probes.depths, np.float64)[:, None], probes.n_sentences, axis=1)


def _per_sentence(probes: DepthPredictions, rows: Float[np.ndarray, "depths rows"]) -> Signal:
    """Return the least value of each sentence's rows; a sentence without rows has 1."""
    # Three sentences of 2, 0 and 1 rows: `reduceat` takes the starts of the first and the third,
    # each up to the next one, since it would give an empty one the row that follows.
    held = probes.lengths > 0
    least = np.ones((len(rows), probes.n_sentences))
    least[:, held] = np.minimum.reduceat(rows, probes.scorer.gold.offsets[:-1][held], axis=1)
    return least


RULES: Mapping[str, ExitRule] = {
    "confidence": ExitRule(
        text="confidence",
        signal=_confidence,
        thresholds=lambda signal, depths: np.quantile(signal[:-1], np.linspace(0, 1, LEVELS)),
        word=">= {:.3f}",
    ),
    "patience": ExitRule(
        text="patience",
        signal=_unchanged,
        thresholds=lambda signal, depths: np.arange(1.0, len(depths)),
        word="{:g} unchanged",
    ),
    "fixed": ExitRule(
        text="fixed depth",
        signal=_depth,
        thresholds=lambda signal, depths: np.array(depths[:-1], np.float64),
        word="depth {:g}",
    ),
}
"""Rules by name, in the order of tables; the last is what the others must be better than.

Confidence is from Kaya and Dumitras (2019), section 5; patience is PABEE (Zhou et al. 2020),
section 3.2; a fixed depth is a model cut there.
"""

TEXTS: Mapping[str, str] = {
    "last": "whole model",
    **{name: rule.text for name, rule in RULES.items()},
    "oracle": "oracle",
}
"""What tables and legends call the rules and what they are held against."""


def check_tolerance(tolerance: float) -> None:
    """Refuse a loss that no score can have.

    Raises:
        OptionError: it is one.
    """
    if not 0 <= tolerance <= 1:
        raise OptionError(
            f"--tolerance {tolerance}: give a loss of score from 0 to 1; 0.01, one percentage "
            "point, is usual."
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
        points: the whole model, each rule with its chosen threshold, and the oracle.
        curves: each rule over all of its thresholds.
    """

    metric: str
    chosen_on: str
    tolerance: float
    points: tuple[ExitPoint, ...]
    curves: tuple[ExitCurve, ...]


def early_exit(
    records: Sequence[Record],
    *,
    split: str | None = None,
    tolerance: float = TOLERANCE,
    samples: int = 10_000,
    seed: int = 0,
) -> list[EarlyExit]:
    """Measure early exit from the predictions of the probes of every depth.

    Args:
        records: of ``probekit depth``.
        split: ``test`` or ``dev``; None is test where all have one, else dev.
        tolerance: loss of score against the last depth that is allowed where thresholds are chosen.
        samples: bootstrap samples.
        seed: of the bootstrap, and of the halves of a split.

    Raises:
        OptionError: too few samples, or a tolerance below 0 or above 1.
        UnknownNameError: no such split.
        RecordError: depths, predictions, probabilities or classes are missing.
        MissingFileError: a side file of predictions does not exist.
    """
    bootstrap = Bootstrap(samples=samples, seed=seed)
    check_tolerance(tolerance)
    pairs = [read_reported(curve, split) for curve in depth_curves(records)]
    return [measure_exits(*pair, bootstrap, tolerance) for pair in pairs]


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
    last = np.full(reported.n_sentences, len(reported.depths) - 1)
    leaving, words, curves = {"last": [last for _ in reported.seeds]}, {}, []
    for name, rule in RULES.items():
        fitted = [
            _fit(rule, reported, choosing, seed, tolerance) for seed in range(len(reported.seeds))
        ]
        leaving[name] = [chosen for chosen, _, _ in fitted]
        words[name] = tuple(dict.fromkeys(word for _, said, _ in fitted for word in said))
        curves.append(_curve(name, reported, np.stack([levels for _, _, levels in fitted], 1)))
    leaving["oracle"] = [oracle(reported, seed) for seed in range(len(reported.seeds))]
    return EarlyExit(
        **reported.about,
        metric=reported.scorer.name,
        chosen_on=chosen_on(dev),
        tolerance=tolerance,
        points=_points(reported, leaving, words, bootstrap),
        curves=tuple(curves),
    )


def _fit(
    rule: ExitRule,
    reported: DepthPredictions,
    choosing: Sequence[Chooser],
    seed: int,
    tolerance: float,
) -> tuple[Exits, list[str], Int64[np.ndarray, "levels sentences"]]:
    """Choose the thresholds of a rule for one seed, given the seed's place.

    Returns:
        Where the sentences of ``reported`` leave, each by the threshold that its chooser chose;
        these thresholds in words; and where sentences leave by every threshold, from the loosest
        to never.
    """
    signal, chosen, by_level, words = rule.signal(reported, seed), [], [], []
    for chooser in choosing:
        on_chooser = signal if chooser.on is reported else rule.signal(chooser.on, seed)
        seen = on_chooser[:, (chooser.choosing[0] > 0) & (chooser.on.lengths > 0)]
        thresholds = np.append(rule.thresholds(seen, reported.depths), np.inf)
        leaving = [{seed: exits(on_chooser, threshold)} for threshold in thresholds]
        outcomes = [_outcome(chooser.on, places, chooser.choosing) for places in leaving]
        scores, layers = np.array(outcomes)[:, :, 0].T
        scores = scores * chooser.on.scorer.scale.sign
        allowed = scores >= scores[-1] - tolerance - _ROUNDING  # of the last depth
        level = int(np.lexsort((-scores, np.where(allowed, layers, np.inf)))[0])
        places = np.stack([exits(signal, threshold) for threshold in thresholds])
        by_level.append(places * chooser.judged)
        chosen.append(places[level] * chooser.judged)
        threshold = float(thresholds[level])
        words.append("never" if np.isinf(threshold) else rule.word.format(threshold))
    return sum(chosen), words, sum(by_level)  # each sentence is judged by one


def exits(signal: Signal, threshold: float) -> Exits:
    """Return the first place whose signal reaches the threshold; the last where none does."""
    # Signals 0.6, 0.9, 0.7 of three depths and the threshold 0.8: place 1, whatever follows.
    reached = signal >= threshold
    reached[-1] = True
    return np.asarray(reached.argmax(0))


def oracle(probes: DepthPredictions, seed: int) -> Exits:
    """Return the first depth that has as many words of a sentence right as any; else the last.

    Of a text that is the first depth that is right. Where no depth has a word right, it is the
    last.
    """
    right = probes.right[seed]
    offsets = probes.scorer.gold.offsets
    words = per_example(right.T.astype(np.float64), offsets).T  # depths, sentences
    most = words.max(0)
    return exits(((words == most) & (most > 0)).astype(np.float64), 1.0)


def _curve(
    name: str, reported: DepthPredictions, by_level: Int64[np.ndarray, "levels seeds sentences"]
) -> ExitCurve:
    every = np.ones((1, reported.n_sentences))
    outcomes = [_outcome(reported, dict(enumerate(of_level)), every) for of_level in by_level]
    scores, layers = np.array(outcomes)[:, :, 0].T
    return ExitCurve(rule=name, layers=tuple(layers.tolist()), scores=tuple(scores.tolist()))


def _points(
    reported: DepthPredictions,
    leaving: Mapping[str, Sequence[Exits]],
    words: Mapping[str, tuple[str, ...]],
    bootstrap: Bootstrap,
) -> tuple[ExitPoint, ...]:
    """Return score, loss, layers and share of layers saved of every rule, with intervals."""
    sign, deepest = reported.scorer.scale.sign, float(reported.depths[-1])

    def statistics(counts: Counts) -> Float64[np.ndarray, "samples k"]:
        columns: list[np.ndarray] = []
        for places in leaving.values():  # the first is the whole model
            score, layers = _outcome(reported, dict(enumerate(places)), counts)
            whole = columns[0] if columns else score
            columns += [score, sign * (whole - score), layers, 1 - layers / deepest]
        return np.column_stack(columns)

    estimates = bootstrap.estimates(reported.groups, statistics)
    kinds = ("score", "loss", "layers", "saved")
    return tuple(
        ExitPoint(
            rule=name,
            thresholds=words.get(name, ()),
            **dict(zip(kinds, estimates[4 * n : 4 * n + 4], strict=True)),
        )
        for n, name in enumerate(leaving)
    )


def _outcome(
    probes: DepthPredictions, leaving: Mapping[int, Exits], counts: Counts
) -> tuple[np.ndarray, np.ndarray]:
    """Return the score and the mean layers on each sample, means over some seeds.

    The predictions of a sentence are those of one depth, and a metric's sums are over sentences, so
    that they are the sums of these. Sentences without rows use no layers.

    Args:
        probes: of a curve.
        leaving: by the place of a seed, where its sentences leave.
        counts: how often each sentence was drawn, (samples, sentences).
    """
    sentences, depths = np.arange(probes.n_sentences), np.array(probes.depths, np.float64)
    held = (probes.lengths > 0).astype(np.float64)
    scores, layers = [], []
    for seed, places in leaving.items():
        scores.append(probes.scorer.combine(counts @ probes.parts[seed, places, sentences]))
        layers.append(counts @ (depths[places] * held) / np.maximum(counts @ held, 1.0))
    return np.mean(scores, axis=0), np.mean(layers, axis=0)


def exit_text(measured: Sequence[EarlyExit]) -> str:
    """Return for a terminal a table of rules per curve, and what was chosen how."""
    return "\n".join(map(_text_of_curve, measured))


def _text_of_curve(measured: EarlyExit) -> str:
    scale, points = scale_of(measured.metric), measured.points
    leaves = [
        ", ".join(said) if len(said) < 4 else f"{said[0]}, ... ({len(said)})"
        for said in (point.thresholds for point in points)
    ]
    columns = [
        Column("rule", [TEXTS[point.rule] for point in points], words=True),
        Column("leaves at", leaves, words=True),
        Column(f"{measured.split} {metric_text(measured.metric)}",
               [point.score.text(scale.factor) for point in points]),
        Column("lost", [point.loss.text(scale.factor, signed=True) for point in points]),
        Column("mean layers", [point.layers.text(decimals=2) for point in points]),
        Column("% saved", [point.saved.text(100) for point in points]),
    ]  # fmt: skip
    how = (
        f"each half of {measured.split} uses the thresholds chosen on the other"
        if measured.chosen_on == "halves"
        else f"thresholds chosen on {measured.chosen_on}"
    )
    note = (
        f"{how}: those with the fewest layers that lose at most "
        f"{measured.tolerance * scale.factor:g} against the whole model there; "
        f"{measured.intervals_text}"
    )
    return f"{measured.title}\n\n{text_table(columns)}\n{note}\n"
