"""Where the sentences of a split leave by a rule, with the threshold that others chose."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from probekit.metrics.contract import Counts
from probekit.results.overthinking.chosen_depth import halves
from probekit.results.overthinking.depth_predictions import DepthPredictions
from probekit.results.overthinking.exit_rules import ExitRule, Exits, Signal, Thresholds, exits

Mask = Float64[np.ndarray, "1 sentences"]

_ROUNDING = 1e-12  # a loss of exactly the tolerance is allowed


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """A part of the reported split, with what chooses its thresholds.

    Attributes:
        on: predictions that choose.
        choosing: their sentences that choose.
        judged: sentences of the reported split that are judged.
    """

    on: DepthPredictions
    choosing: Mask
    judged: Bool[np.ndarray, " sentences"]


def judged_parts(
    reported: DepthPredictions, dev: DepthPredictions | None, seed: int
) -> tuple[Judged, ...]:
    """Return the parts of a split that have thresholds of their own: halves, without a dev split.

    Args:
        reported: the split.
        dev: the split that chooses; None chooses on each half of the reported one for the other.
        seed: of the halves.
    """
    if dev is not None:
        every = np.ones(reported.n_sentences, bool)
        return (Judged(on=dev, choosing=np.ones((1, dev.n_sentences)), judged=every),)
    one, two = halves(reported.n_sentences, seed)
    return tuple(
        Judged(on=reported, choosing=choosing[None].astype(np.float64), judged=judged)
        for judged, choosing in ((one, two), (two, one))
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedRule:
    """A rule on one seed.

    Attributes:
        rule: the rule.
        reported: what it is judged on.
        seed: the place of the seed.
        signal: on all of ``reported``.
        parts: of ``reported``.
        signals: on what chooses for each part.
        thresholds: of each part, from the loosest to never.
    """

    rule: ExitRule
    reported: DepthPredictions
    seed: int
    signal: Signal
    parts: tuple[Judged, ...]
    signals: tuple[Signal, ...]
    thresholds: tuple[Thresholds, ...]

    @classmethod
    def of(
        cls, rule: ExitRule, reported: DepthPredictions, parts: tuple[Judged, ...], seed: int
    ) -> "FittedRule":
        """Return the rule with the thresholds of what chooses."""
        signal = rule.signal(reported, seed)
        signals = [signal if one.on is reported else rule.signal(one.on, seed) for one in parts]
        seen = [
            own[:, (one.choosing[0] > 0) & (one.on.lengths > 0)]
            for one, own in zip(parts, signals, strict=True)
        ]
        return cls(
            rule=rule,
            reported=reported,
            seed=seed,
            signal=signal,
            parts=parts,
            signals=tuple(signals),
            thresholds=tuple(rule.thresholds(own, reported.depths) for own in seen),
        )

    def exits(self, levels: Sequence[int]) -> Exits:
        """Return where sentences leave, given the place of the threshold of each part."""
        found = np.zeros(self.reported.n_sentences, np.int64)
        for part, thresholds, level in zip(self.parts, self.thresholds, levels, strict=True):
            found[part.judged] = exits(self.signal[:, part.judged], thresholds[level])
        return found

    def choose(self, tolerance: float) -> list[int]:
        """Return the place of each part's threshold."""
        each = zip(self.parts, self.signals, self.thresholds, strict=True)
        return [self._chosen(*one, tolerance) for one in each]

    def _chosen(
        self, part: Judged, signal: Signal, thresholds: Thresholds, tolerance: float
    ) -> int:
        places = [exits(signal, threshold) for threshold in thresholds]
        scores = np.array([score_of(part.on, self.seed, p, part.choosing)[0] for p in places])
        scores *= part.on.scorer.scale.sign
        layers = np.array([layers_of(part.on, p, part.choosing)[0] for p in places])
        allowed = scores >= scores[-1] - tolerance - _ROUNDING  # the last threshold: never
        return int(np.lexsort((-scores, np.where(allowed, layers, np.inf)))[0])

    def words(self, levels: Sequence[int]) -> list[str]:
        """Return the thresholds in words."""
        pairs = zip(self.thresholds, levels, strict=True)
        return [self.rule.word(float(thresholds[level])) for thresholds, level in pairs]


def score_of(found: DepthPredictions, seed: int, places: Exits, counts: Counts) -> np.ndarray:
    """Return the score on each sample of what sentences predict where they leave.

    The predictions of a sentence are those of one depth, and a metric's sums are over sentences, so
    that they are the sums of these.
    """
    parts = found.parts[seed, places, np.arange(found.n_sentences)]
    return np.asarray(found.scorer.combine(counts @ parts))


def layers_of(found: DepthPredictions, places: Exits, counts: Counts) -> np.ndarray:
    """Return the mean layers on each sample; sentences without rows do not count."""
    used = np.array(found.depths, np.float64)[places]
    held = (found.lengths > 0).astype(np.float64)
    return np.asarray(counts @ (used * held) / np.maximum(counts @ held, 1.0))
