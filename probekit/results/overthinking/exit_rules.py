"""Rules by which a sentence leaves a model early, with the probe of each depth as an exit.

A rule is a signal of every depth, and a threshold: a sentence leaves at the first depth whose
signal reaches it, else at the last. A transformer computes all words of a sentence together, so
that it leaves as a whole, when its least sure word may.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Float64, Int64

from probekit.errors import OptionError
from probekit.metrics.contract import Counts, per_example
from probekit.results.overthinking.chosen_depth import Chooser
from probekit.results.overthinking.depth_predictions import DepthPredictions, probabilities_of

Signal = Float64[np.ndarray, "depths sentences"]
Exits = Int64[np.ndarray, " sentences"]
"""The place among the depths at which each sentence leaves."""

Thresholds = Float64[np.ndarray, " levels"]

LEVELS = 41
"""Thresholds of a signal that has any value: its quantiles 0, 1/40, ..., 1, and never."""


def exits(signal: Signal, threshold: float) -> Exits:
    """Return the first place whose signal reaches the threshold; the last where none does."""
    # Signals 0.6, 0.9, 0.7 of three depths and the threshold 0.8: place 1, whatever follows.
    reached = signal >= threshold
    reached[-1] = True
    return np.asarray(reached.argmax(0))


class ExitRule(ABC):
    """How sentences leave early.

    Attributes:
        text: what tables and legends call it.
        source: where it is from.
    """

    text: ClassVar[str]
    source: ClassVar[str]

    @abstractmethod
    def signal(self, found: DepthPredictions, seed: int) -> Signal:
        """Return the signal of one seed's predictions; the larger, the sooner a sentence leaves."""

    def thresholds(self, signal: Signal, depths: Sequence[int]) -> Thresholds:
        """Return as many thresholds whatever the signal, from the loosest to never (infinity)."""
        return np.append(np.quantile(signal[:-1], np.linspace(0, 1, LEVELS)), np.inf)

    def word(self, threshold: float) -> str:
        """Return a threshold as a table prints it."""
        return "never" if np.isinf(threshold) else self._word(threshold)

    @abstractmethod
    def _word(self, threshold: float) -> str:
        """Return a threshold that can be reached."""


class Confidence(ExitRule):
    """The probability of the most probable class, of the least sure word, is large."""

    text: ClassVar[str] = "confidence"
    source: ClassVar[str] = "Kaya and Dumitras (2019), section 5"

    def signal(self, found: DepthPredictions, seed: int) -> Signal:
        """Return the confidence."""
        probabilities = probabilities_of(found, seed)
        return per_sentence(found, np.stack([values.max(1) for values, _ in probabilities]))

    def _word(self, threshold: float) -> str:
        return f">= {threshold:.3f}"


class Patience(ExitRule):
    """No word's prediction has changed for some depths in a row."""

    text: ClassVar[str] = "patience"
    source: ClassVar[str] = "PABEE (Zhou et al. 2020), section 3.2"

    def signal(self, found: DepthPredictions, seed: int) -> Signal:
        """Return over how many depths in a row no prediction changed."""
        # Predictions A A B B B of one text: 0 1 0 1 2.
        predicted = found.predicted[seed]
        same = per_sentence(found, (predicted[1:] == predicted[:-1]).astype(np.float64)) > 0
        counts = np.zeros((len(predicted), same.shape[1]))
        for depth, unchanged in enumerate(same, start=1):
            counts[depth] = (counts[depth - 1] + 1) * unchanged
        return counts

    def thresholds(self, signal: Signal, depths: Sequence[int]) -> Thresholds:
        """Return 1, 2, ... up to what the depths allow."""
        return np.append(np.arange(1.0, len(depths)), np.inf)

    def _word(self, threshold: float) -> str:
        return f"{threshold:g} unchanged"


class Fixed(ExitRule):
    """All sentences leave at one depth."""

    text: ClassVar[str] = "fixed depth"
    source: ClassVar[str] = "a model cut at one depth"

    def signal(self, found: DepthPredictions, seed: int) -> Signal:
        """Return the depth itself."""
        depths = np.array(found.depths, np.float64)
        return np.repeat(depths[:, None], found.n_sentences, axis=1)

    def thresholds(self, signal: Signal, depths: Sequence[int]) -> Thresholds:
        """Return the depths but for the last."""
        return np.append(np.array(depths[:-1], np.float64), np.inf)

    def _word(self, threshold: float) -> str:
        return f"depth {threshold:g}"


RULES: Mapping[str, ExitRule] = {
    "confidence": Confidence(),
    "patience": Patience(),
    "fixed": Fixed(),
}
"""Rules by name, in the order of tables; the last is what the others must be better than."""

TEXTS: Mapping[str, str] = {
    "last": "whole model",
    **{name: rule.text for name, rule in RULES.items()},
    "oracle": "oracle",
}
"""What tables and legends call the rules and what they are held against."""


def oracle(found: DepthPredictions, seed: int) -> Exits:
    """Return the first depth that has as many words of a sentence right as any; else the last.

    Of a text that is the first depth that is right. Where no depth has a word right, it is the
    last.
    """
    right = found.right[seed]
    offsets = found.scorer.gold.offsets
    words = per_example(right.T.astype(np.float64), offsets).T  # depths, sentences
    most = words.max(0)
    return exits(((words == most) & (most > 0)).astype(np.float64), 1.0)


def per_sentence(found: DepthPredictions, rows: Float[np.ndarray, "depths rows"]) -> Signal:
    """Return the least value of each sentence's rows; a sentence without rows has 1."""
    # Three sentences of 2, 0 and 1 rows: `reduceat` takes the starts of the first and the third,
    # each up to the next one, since it would give an empty one the row that follows.
    held = found.lengths > 0
    least = np.ones((len(rows), found.n_sentences))
    least[:, held] = np.minimum.reduceat(rows, found.scorer.gold.offsets[:-1][held], axis=1)
    return least


TOLERANCE = 0.01
"""Loss of score that is allowed where thresholds are chosen: one point of a percentage."""

_ROUNDING = 1e-12  # a loss of exactly the tolerance is allowed


def check_tolerance(tolerance: float) -> None:
    """Refuse a loss that no score can have.

    Raises:
        OptionError: it is one.
    """
    if not 0 <= tolerance <= 1:
        raise OptionError(
            f"--tolerance {tolerance}: a loss of score is from 0 to 1, where 0.01 is one point of "
            "a percentage, and usual."
        )


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
        """Return the place of each chooser's threshold, which may lose so much of the score."""
        each = zip(self.choosers, self.signals, self.thresholds, strict=True)
        return [self._chosen(*own, tolerance) for own in each]

    def _chosen(
        self, one: Chooser, signal: Signal, thresholds: Thresholds, tolerance: float
    ) -> int:
        places = [exits(signal, threshold) for threshold in thresholds]
        scores = np.array([score_of(one.on, self.seed, p, one.choosing)[0] for p in places])
        scores *= one.on.scorer.scale.sign
        layers = np.array([layers_of(one.on, p, one.choosing)[0] for p in places])
        allowed = scores >= scores[-1] - tolerance - _ROUNDING  # of the last depth
        fewest = np.where(allowed, layers, np.inf)
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
