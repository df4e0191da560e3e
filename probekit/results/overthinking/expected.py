"""What the last depth expects of the earlier ones, by its own calibrated probabilities.

Null: an earlier depth knows nothing of a row that the last one does not. Given what the last depth
says of the row, gold is then a draw from its probabilities, whatever the earlier depths name and
however they depend on one another: a class that they name is gold with the probability that the
last depth gives it. That holds where these probabilities are right, and a probe may be more or
less sure than it should be. So the chance that the last prediction is right is fitted to its
confidence by isotonic regression (Zadrozny and Elkan 2002), and the other classes share the rest by
their probabilities to the power that makes gold most likely where the last depth is wrong, which is
temperature scaling (Guo et al. 2017) of these classes alone. Both are fitted to the reported rows
themselves. Sums over all rows then are right by construction, which makes a test of some of them
conservative (``tests/results/overthinking/test_null.py`` simulates it).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from probekit.results.overthinking.depth_predictions import DepthPredictions, probabilities_of

_TINY = 1e-12
_LEAST = 2.0**-25  # half of what float16 tells from 0
_POWERS = (0.1, 10.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Expected:
    """Probabilities by the last depth, seed by seed.

    Attributes:
        of_each: that an earlier depth is right and the last one wrong.
        of_any: that any earlier depth is right and the last one wrong.
        gold: that the gold class is.
    """

    of_each: Float64[np.ndarray, "seeds earlier rows"]
    of_any: Float64[np.ndarray, "seeds rows"]
    gold: Float64[np.ndarray, "seeds rows"]


def expected_of(found: DepthPredictions) -> Expected:
    """Return what the last depth expects.

    Raises:
        RecordError: its predictions were kept without probabilities.
    """
    each, some, gold = [], [], []
    for seed, predicted in enumerate(found.predicted):
        last = _Calibrated(found, seed)
        own = np.stack([last.of(names) for names in predicted[:-1]]) * (predicted[:-1] != last.said)
        # What a depth names counts once: depths that name A, B and A say no more than A and B.
        new = np.stack([(names != predicted[:n]).all(0) for n, names in enumerate(predicted[:-1])])
        each.append(own)
        some.append((own * new).sum(0))
        gold.append(last.of(found.scorer.gold.ids))
    return Expected(of_each=np.stack(each), of_any=np.stack(some), gold=np.stack(gold))


class _Calibrated:
    """The last depth's probabilities of one seed, calibrated.

    Attributes:
        said: class that it predicts of each row.
    """

    def __init__(self, found: DepthPredictions, seed: int) -> None:
        from sklearn.isotonic import IsotonicRegression  # slow to import

        self.said = found.predicted[seed, -1]
        held = found.found[-1][seed]
        values, self._kept = probabilities_of(found, seed)[-1]
        self._values = values.astype(np.float64)
        n_classes = len(held.names) if self._kept is not None else values.shape[1]
        self._unkept = max(n_classes - values.shape[1], 1)
        self._left = np.clip(1 - self._values.sum(1), 0, None) * (self._kept is not None)
        self._sure = self._raw(self.said)
        # The sum of all others tells 0.9999 from 0.99999, which float16 does not.
        rest = np.maximum(self._values.sum(1) + self._left - self._sure, _TINY)
        gold = found.scorer.gold.ids
        right = self.said == gold
        fitted = IsotonicRegression(y_min=0, y_max=1, increasing=False)
        self._right = fitted.fit_transform(rest, right.astype(np.float64))
        by_gold = self._raw(gold)
        wrong = np.flatnonzero(~right & (by_gold > 0))
        fits = n_classes > 2 and len(wrong) > 0
        self._power = self._likeliest(by_gold[wrong], wrong) if fits else 1.0
        self._others = self._sum_of_others(self._power)

    def of(self, names: np.ndarray) -> Float64[np.ndarray, " rows"]:
        """Return the probability of a class of each row."""
        shares = np.minimum(self._powered(self._raw(names), self._power) / self._others, 1)
        return np.where(names == self.said, self._right, shares * (1 - self._right))

    def _likeliest(self, by_gold: np.ndarray, wrong: np.ndarray) -> float:
        """Return the power under which the gold classes of wrong rows are most likely.

        Args:
            by_gold: probability of the gold class as it was kept, of each of these rows.
            wrong: which rows.
        """
        from scipy.optimize import minimize_scalar  # slow to import

        own = np.log(np.maximum(by_gold, _LEAST))

        def loss(log_power: float) -> float:
            power = np.exp(log_power)
            return float((np.log(self._sum_of_others(power, wrong)) - power * own).sum())

        return float(np.exp(minimize_scalar(loss, bounds=np.log(_POWERS), method="bounded").x))

    def _sum_of_others(
        self, power: float, rows: np.ndarray | slice = slice(None)
    ) -> Float64[np.ndarray, " rows"]:
        """Return the sum of powers over all classes that are not the last prediction."""
        every = self._powered(self._values[rows], power).sum(1)
        if self._kept is not None:
            every += self._unkept * self._powered(self._left[rows] / self._unkept, power)
        return np.maximum(every - self._powered(self._sure[rows], power), _LEAST**power)

    @staticmethod
    def _powered(values: np.ndarray, power: float) -> np.ndarray:
        return np.where(values > 0, np.maximum(values, _LEAST) ** power, 0.0)

    def _raw(self, names: np.ndarray) -> Float64[np.ndarray, " rows"]:
        """Return the probability as it was kept; of a class that was not, its part of the rest."""
        rows = np.arange(len(names))
        if self._kept is None:
            known = names < self._values.shape[1]  # gold may be a class that has no logit
            found = self._values[rows, np.where(known, names, 0)]
            return np.where(known, found, 0.0)
        match = self._kept == names[:, None]
        found = (self._values * match).sum(1)
        return np.where(match.any(1), found, self._left / self._unkept)
