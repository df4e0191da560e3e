"""Where the sentences of a split leave by a rule, with the threshold that others chose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from probekit.base.registry import choose
from probekit.errors import OptionError
from probekit.metrics.contract import Counts
from probekit.results.overthinking.choosers import Chooser
from probekit.results.overthinking.depth_predictions import DepthPredictions
from probekit.results.overthinking.exit_rules import ExitRule, Exits, Signal, Thresholds, exits

_ROUNDING = 1e-12  # a loss of exactly the tolerance is allowed

BELOW: Mapping[str, str] = {"last": "the whole model", "best": "the rule's best threshold"}
"""What a loss is counted from, by the name that a user gives it."""


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """How much of which score may be lost where thresholds are chosen.

    Attributes:
        tolerance: loss of score, in the metric: 0.01 is one point of a percentage.
        below: what it is counted from: ``last``, the score of the last depth, as in DeeBERT and
            PABEE; or ``best``, that of the rule's best threshold. Where the last depth is worse
            than an earlier one, a rule that may be as bad as the last saves more layers, and one
            that must be as good as its best leaves where that is.
    """

    tolerance: float = 0.01
    below: str = "last"

    def __post_init__(self) -> None:
        """Refuse a loss that no score can have, and an unknown name."""
        choose("reference of --below", self.below, BELOW)
        if not 0 <= self.tolerance <= 1:
            raise OptionError(
                f"--tolerance {self.tolerance}: a loss of score is from 0 to 1, where 0.01 is one "
                "point of a percentage, and usual."
            )

    def allows(self, scores: Float64[np.ndarray, " levels"]) -> Bool[np.ndarray, " levels"]:
        """Say which thresholds lose little enough, given the scores of all, greater is better."""
        reference = scores[-1] if self.below == "last" else scores.max()  # the last is never
        return np.asarray(scores >= reference - self.tolerance - _ROUNDING)


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

    def choose(self, allowance: Allowance) -> list[int]:
        """Return the place of each chooser's threshold."""
        each = zip(self.choosers, self.signals, self.thresholds, strict=True)
        return [self._chosen(*own, allowance) for own in each]

    def _chosen(
        self, one: Chooser, signal: Signal, thresholds: Thresholds, allowance: Allowance
    ) -> int:
        places = [exits(signal, threshold) for threshold in thresholds]
        scores = np.array([score_of(one.on, self.seed, p, one.choosing)[0] for p in places])
        scores *= one.on.scorer.scale.sign
        layers = np.array([layers_of(one.on, p, one.choosing)[0] for p in places])
        fewest = np.where(allowance.allows(scores), layers, np.inf)
        return int(np.lexsort((-scores, fewest))[0])

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
