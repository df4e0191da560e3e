"""Where the sentences of a split leave by a rule, with the threshold that others chose."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probekit.metrics.contract import Counts
from probekit.results.overthinking.choosers import Chooser
from probekit.results.overthinking.depth_predictions import DepthPredictions
from probekit.results.overthinking.exit_rules import ExitRule, Exits, Signal, Thresholds, exits

_ROUNDING = 1e-12  # a loss of exactly the tolerance is allowed


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedRule:
    """A rule on one seed.

    Attributes:
        rule: the rule.
        reported: what it is judged on.
        seed: the place of the seed.
        signal: on all of ``reported``.
        choosers: what chooses for the sentences of ``reported``.
        signals: of each chooser's predictions.
        thresholds: of each chooser, from the loosest to never.
    """

    rule: ExitRule
    reported: DepthPredictions
    seed: int
    signal: Signal
    choosers: tuple[Chooser, ...]
    signals: tuple[Signal, ...]
    thresholds: tuple[Thresholds, ...]

    @classmethod
    def of(
        cls, rule: ExitRule, reported: DepthPredictions, choosers: tuple[Chooser, ...], seed: int
    ) -> "FittedRule":
        """Return the rule with the thresholds of what chooses."""
        signal = rule.signal(reported, seed)
        signals = [signal if one.on is reported else rule.signal(one.on, seed) for one in choosers]
        seen = [
            own[:, (one.choosing[0] > 0) & (one.on.lengths > 0)]
            for one, own in zip(choosers, signals, strict=True)
        ]
        return cls(
            rule=rule,
            reported=reported,
            seed=seed,
            signal=signal,
            choosers=choosers,
            signals=tuple(signals),
            thresholds=tuple(rule.thresholds(own, reported.depths) for own in seen),
        )

    def exits(self, levels: Sequence[int]) -> Exits:
        """Return where sentences leave, given the place of the threshold of each chooser."""
        found = np.zeros(self.reported.n_sentences, np.int64)
        for one, thresholds, level in zip(self.choosers, self.thresholds, levels, strict=True):
            found[one.judged] = exits(self.signal[:, one.judged], thresholds[level])
        return found

    def choose(self, tolerance: float) -> list[int]:
        """Return the place of each chooser's threshold."""
        each = zip(self.choosers, self.signals, self.thresholds, strict=True)
        return [self._chosen(*own, tolerance) for own in each]

    def _chosen(
        self, one: Chooser, signal: Signal, thresholds: Thresholds, tolerance: float
    ) -> int:
        places = [exits(signal, threshold) for threshold in thresholds]
        scores = np.array([score_of(one.on, self.seed, p, one.choosing)[0] for p in places])
        scores *= one.on.scorer.scale.sign
        layers = np.array([layers_of(one.on, p, one.choosing)[0] for p in places])
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
