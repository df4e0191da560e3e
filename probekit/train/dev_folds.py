"""Folds of dev for nested selection: the fit that is scored on one was chosen on all others.

So the score of dev says what a fit does on sentences that did not choose it, although dev chose
(nested cross-validation: Cawley & Talbot 2010, "On over-fitting in model selection", section 5).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64

from probekit.features import FeatureView
from probekit.metrics import Metric
from probekit.train.sampling import fold_numbers
from probekit.train.scoring import gold_of


class DevFolds:
    """The folds of a split, each with all others as what chooses for it.

    Attributes:
        count: K.
    """

    def __init__(self, view: FeatureView, metric: type[Metric], count: int) -> None:
        """Prepare a scorer of all but each fold.

        Args:
            view: the split.
            metric: what chooses, and scores.
            count: K.
        """
        # Five sentences in the folds 1 2 1 2 2: what is chosen for fold 1 is chosen on sentences
        # 1, 3 and 4, and `others[0]` are the places of their rows.
        self.count, self._n_rows, self._name = count, len(view), metric.name
        numbers = fold_numbers(view.n_examples, count, view.groups)
        folds = [np.flatnonzero(numbers == fold) for fold in range(1, count + 1)]
        others = [np.flatnonzero(numbers != fold) for fold in range(1, count + 1)]
        self._rows = [view.places(examples) for examples in folds]
        self._others: list[Int64[np.ndarray, " rows"]] = [view.places(own) for own in others]
        self._scorers = [metric(gold_of(view.take(examples), metric)) for examples in others]

    def scores(self, predicted: np.ndarray) -> list[float]:
        """Return the score of some predictions of the split on what chooses for each fold."""
        pairs = zip(self._scorers, self._others, strict=True)
        return [scorer.score(predicted[rows])[self._name] for scorer, rows in pairs]

    def owners(self, chosen: Sequence[int]) -> Int64[np.ndarray, " rows"]:
        """Return, of each row, the fit that was chosen for its fold.

        Args:
            chosen: the fit of each fold.
        """
        found = np.empty(self._n_rows, np.int64)
        for rows, fit in zip(self._rows, chosen, strict=True):
            found[rows] = fit
        return found
