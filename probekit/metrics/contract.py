"""What every metric promises: prepared once with the gold labels, it scores predictions fast."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import numpy as np

from probekit.errors import OptionError
from probekit.metrics.gold import AnyGold, Gold, Ids, LossGold, ValueGold, Values
from probekit.metrics.resampling import Additive, Resampler

Consumes = Literal["classes", "values", "losses"]
G = TypeVar("G", Gold, ValueGold, LossGold)


class Scorer(ABC):
    """A metric prepared for one split; `score` may be called many times."""

    @abstractmethod
    def score(self, predicted: np.ndarray) -> dict[str, float]:
        """Return finite scores; the main score comes first, under the metric's name.

        Args:
            predicted: one class id, value or loss per row, as ``Metric.consumes`` says.

        Raises:
            OptionError: another number of predictions than rows, or a class id outside
                ``Gold.names``.
        """

    @abstractmethod
    def resampler(self, predicted: np.ndarray) -> Resampler:
        """Return a function to the main scores of many resamples of the examples.

        It takes how often each example occurs in each sample, (samples, examples). Where sums
        over examples are enough, `Additive` gives it.

        Args:
            predicted: as for `score`.
        """

    def judge(self, predicted: np.ndarray) -> dict[str, float]:
        """Return the scores by the reference implementation, for a final number.

        The same as `score`, unless the metric has an outside judge that is too slow for a loop.
        """
        return self.score(predicted)


class ClassScorer(Additive, Scorer):
    """Base of the scorers of class ids."""

    def __init__(self, gold: Gold) -> None:
        """Keep the gold labels."""
        self.gold = gold

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


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A metric's name: a value that prepares a `Scorer`.

    Attributes:
        name: key in ``METRICS``, and the key of the main score.
        summary: one line for people.
        greater_is_better: whether the best score is the largest one.
        percent: whether tables print the score times 100.
        consumes: what is scored: class ids against `Gold`, values against `ValueGold`, or the
            losses of rows (`LossGold`).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    greater_is_better: ClassVar[bool] = True
    percent: ClassVar[bool] = True
    consumes: ClassVar[Consumes] = "classes"

    @abstractmethod
    def prepare(self, gold: AnyGold) -> Scorer:
        """Return the scorer of one split.

        Raises:
            OptionError: the gold side is not of the kind that the metric consumes.
        """


def expect(metric: Metric, gold: AnyGold, kind: type[G]) -> G:
    """Return ``gold`` if it is of the kind that the metric consumes, else raise OptionError."""
    if not isinstance(gold, kind):
        raise OptionError(
            f"{metric.name} scores {metric.consumes} ({kind.__name__}); found "
            f"{type(gold).__name__}. Choose a metric for this kind of label."
        )
    return gold
