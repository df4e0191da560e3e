"""Rules by which a sentence leaves a model early, with the probe of each depth as an exit.

A rule is a signal of every depth, and a threshold: a sentence leaves at the first depth whose
signal reaches it, else at the last. A transformer computes all words of a sentence together, so
that it leaves as a whole, when its least sure word may.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Float64, Int64

from probekit.metrics.contract import per_example
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
