"""What every metric promises: prepared once with the gold labels, it scores predictions fast."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int64

from probekit.errors import DataError, OptionError

Ids = Int64[np.ndarray, " words"]
Offsets = Int64[np.ndarray, " bounds"]


@dataclass(frozen=True)
class Gold:
    """The gold labels of a split, as ids.

    Attributes:
        ids: one id per word, an index into ``names``; examples one after another.
        offsets: example e owns words ``offsets[e]:offsets[e + 1]``; shape (examples + 1,).
        names: label names. The classes that a head can predict come first, in its order; labels
            that only the gold side has (a dev label unseen in train) follow. No prediction can
            match those, so they count as errors; they are never skipped.
    """

    ids: Ids
    offsets: Offsets
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check that ids and offsets fit together.

        Raises:
            DataError: no words, ids outside ``names``, offsets that do not cover the words, or a
                name that is empty or occurs twice.
        """
        n_words, bounds = len(self.ids), self.offsets
        if n_words == 0:
            raise DataError("there is no word to score: the split is empty.")
        if bounds[0] != 0 or bounds[-1] != n_words or (np.diff(bounds) < 0).any():
            raise DataError(
                f"offsets must rise from 0 to the number of words, {n_words}; found "
                f"{bounds[0]} to {bounds[-1]}."
            )
        if not all(self.names) or len(set(self.names)) != len(self.names):
            raise DataError(f"label names must be distinct and not empty; found {self.names}.")
        if self.ids.min() < 0 or self.ids.max() >= len(self.names):
            raise DataError(
                f"gold label ids must lie in 0..{len(self.names) - 1}; found {self.ids.min()} to "
                f"{self.ids.max()}. Give labels unseen in train a name and an id of their own "
                "(encode_gold does)."
            )


def encode_gold(labels: Sequence[Sequence[str]], classes: Sequence[str]) -> Gold:
    """Turn label names into `Gold`.

    Args:
        labels: one list of label names per example.
        classes: the head's classes, ids 0..C-1; other labels get the ids that follow, by name.
    """
    extra = sorted({label for example in labels for label in example}.difference(classes))
    names = (*classes, *extra)
    index = {name: i for i, name in enumerate(names)}
    ids = np.array([index[label] for example in labels for label in example], dtype=np.int64)
    offsets = np.cumsum([0, *map(len, labels)], dtype=np.int64)
    return Gold(ids, offsets, names)


class Scorer(ABC):
    """A metric prepared for one split; `score` may be called many times."""

    def __init__(self, gold: Gold) -> None:
        """Keep the gold labels."""
        self.gold = gold

    @abstractmethod
    def score(self, predicted: Ids) -> dict[str, float]:
        """Return scores in 0..1; the main score comes first, under the metric's name.

        Args:
            predicted: one id per word, an index into ``gold.names``.

        Raises:
            OptionError: another number of predictions than words, or an id outside ``gold.names``.
        """

    def judge(self, predicted: Ids) -> dict[str, float]:
        """Return the scores by the reference implementation, for a final number.

        The same as `score`, unless the metric has an outside judge that is too slow for a loop.
        """
        return self.score(predicted)

    def check(self, predicted: Ids) -> None:
        """Raise OptionError unless there is one prediction per word, each an index into names."""
        n_words, n_names = len(self.gold.ids), len(self.gold.names)
        if len(predicted) != n_words:
            raise OptionError(
                f"expected {n_words} predictions, one per word; found {len(predicted)}."
            )
        if predicted.min() < 0 or predicted.max() >= n_names:
            raise OptionError(
                f"predictions must be label ids in 0..{n_names - 1}; found {predicted.min()} to "
                f"{predicted.max()}."
            )


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A metric's name: a value that prepares a `Scorer`.

    Attributes:
        name: key in ``METRICS``, and the key of the main score.
        summary: one line for people.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def prepare(self, gold: Gold) -> Scorer:
        """Return the scorer of one split."""
