"""Scores of many resamples of a split at once, from what each example adds to them."""

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from jaxtyping import Float64, Shaped

from probekit.metrics.gold import Offsets

Parts = Float64[np.ndarray, "examples parts"]
Counts = Float64[np.ndarray, "samples examples"]
Scores = Float64[np.ndarray, " samples"]
Resampler = Callable[[Counts], Scores]


class Additive:
    """A scorer whose main score is a function of sums over examples."""

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


def per_example(rows: Shaped[np.ndarray, "rows parts"], offsets: Offsets) -> Parts:
    """Add up what the rows of each example hold."""
    sums = np.zeros((len(rows) + 1, rows.shape[1]))
    np.cumsum(rows, axis=0, out=sums[1:])
    return sums[offsets[1:]] - sums[offsets[:-1]]


def ratio(above: Scores, below: Scores) -> Scores:
    """Return ``above / below``, 0 where that is 0 / 0."""
    return above / np.maximum(below, 1.0)
