"""What every metric promises: prepared once with the gold labels, it scores predictions fast."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float64, Shaped

from probekit.errors import OptionError
from probekit.metrics.gold import AnyGold, Gold, Ids, LossGold, Offsets, ValueGold, Values
from probekit.metrics.scale import Scale

Consumes = Literal["classes", "values", "losses"]

Counts = Float64[np.ndarray, "samples examples"]
"""How often each example of a split occurs in each of some samples."""

Parts = Float64[np.ndarray, "examples parts"]
Scores = Float64[np.ndarray, " samples"]
Resampler = Callable[[Counts], Scores]

_GOLD: dict[Consumes, type] = {"classes": Gold, "values": ValueGold, "losses": LossGold}


class Metric(ABC):
    """A metric, prepared for one split; `score` may be called many times.

    Attributes:
        name: key in ``METRICS``, and the key of the main score.
        text: what axes and captions call it.
        summary: one line for people.
        scale: how its scores are shown, and which way is better.
        consumes: what is scored: class ids against `Gold`, values against `ValueGold`, or the
            losses of rows (`LossGold`).
        gold: the gold side of the split.
    """

    name: ClassVar[str]
    text: ClassVar[str]
    summary: ClassVar[str]
    scale: ClassVar[Scale] = Scale()
    consumes: ClassVar[Consumes] = "classes"

    def __init__(self, gold: AnyGold) -> None:
        """Keep the gold side; subclasses then find what they need of it, once.

        Raises:
            OptionError: the gold side is not of the kind that the metric consumes.
        """
        kind = _GOLD[self.consumes]
        if not isinstance(gold, kind):
            raise OptionError(
                f"{self.name} scores {self.consumes} ({kind.__name__}); found "
                f"{type(gold).__name__}. Choose a metric for this kind of label."
            )
        self.gold = gold

    @abstractmethod
    def score(self, predicted: np.ndarray) -> dict[str, float]:
        """Return finite scores; the main score comes first, under the metric's name.

        Args:
            predicted: one class id, value or loss per row, as ``consumes`` says.

        Raises:
            OptionError: another number of predictions than rows, or a class id outside
                ``Gold.names``.
        """

    @abstractmethod
    def resampler(self, predicted: np.ndarray) -> Resampler:
        """Return a function to the main scores of many resamples of the examples.

        It takes how often each example occurs in each sample, (samples, examples). Where sums
        over examples are enough, `AdditiveMetric` gives it.

        Args:
            predicted: as for `score`.
        """

    def judge(self, predicted: np.ndarray) -> dict[str, float]:
        """Return the scores by the reference implementation, for a final number.

        The same as `score`, unless the metric has an outside judge that is too slow for a loop.
        """
        return self.score(predicted)


class AdditiveMetric(Metric):
    """A metric whose main score is a function of sums over examples."""

    @abstractmethod
    def parts(self, predicted: np.ndarray) -> Parts:
        """Return what each example adds to the sums.

        Args:
            predicted: as for ``score``.
        """

    @abstractmethod
    def combine(self, sums: Float64[np.ndarray, "samples parts"]) -> Scores:
        """Return the main score of each sample from its sums."""

    def resampler(self, predicted: np.ndarray) -> Resampler:
        """Return the function from how often each example occurs in a sample to its main score."""
        parts = self.parts(predicted)
        return lambda counts: self.combine(counts @ parts)


class ClassMetric(AdditiveMetric):
    """Base of the metrics of class ids."""

    gold: Gold

    def check(self, predicted: Ids) -> None:
        """Raise OptionError unless there is one prediction per word, each an index into names."""
        check_ids(self.gold, predicted)


def check_ids(gold: Gold, predicted: Ids) -> None:
    """Raise OptionError unless there is one prediction per word, each an index into names."""
    n_names = len(gold.names)
    check_count(predicted, len(gold.ids), "word")
    if predicted.min() < 0 or predicted.max() >= n_names:
        raise OptionError(
            f"predictions must be label ids in 0..{n_names - 1}; found {predicted.min()} to "
            f"{predicted.max()}."
        )


def check_count(predicted: Ids | Values, expected: int, noun: str) -> None:
    """Raise OptionError unless there are as many predictions as expected."""
    if len(predicted) != expected:
        raise OptionError(
            f"expected {expected} predictions, one per {noun}; found {len(predicted)}."
        )


def per_example(rows: Shaped[np.ndarray, "rows parts"], offsets: Offsets) -> Parts:
    """Add up what the rows of each example hold."""
    sums = np.zeros((len(rows) + 1, rows.shape[1]))
    np.cumsum(rows, axis=0, out=sums[1:])
    return sums[offsets[1:]] - sums[offsets[:-1]]


def ratio(above: Scores, below: Scores) -> Scores:
    """Return ``above / below``, 0 where that is 0 / 0."""
    return above / np.maximum(below, 1.0)
