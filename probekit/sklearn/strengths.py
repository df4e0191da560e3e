"""Logistic regression on rows in memory: at one strength of L2, or at the best along the path."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64, Shaped
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import Tensor

from probekit.probe.fitters.basis import Basis, BasisBuilder, Scale
from probekit.probe.fitters.linear_problems import LinearObjective, Problems, weaker_strengths
from probekit.probe.fitters.losses import Binary, Loss, Softmax
from probekit.probe.fitters.minimise import Evaluation, Minimum, Request, run_alone


class LinearRule(ClassifierMixin, BaseEstimator):
    """A classifier by ``coef_ h + intercept_``.

    Attributes:
        classes_: the classes, sorted.
        coef_: (1, width) for two classes, else (classes, width).
        intercept_: one per row of ``coef_``.
    """

    classes_: Shaped[np.ndarray, " classes"]
    coef_: Float64[np.ndarray, "logits width"]
    intercept_: Float64[np.ndarray, " logits"]

    @classmethod
    def of(cls, classes: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> "LinearRule":
        """Return the classifier of some numbers, fitted."""
        rule = LinearRule()
        rule.classes_, rule.coef_, rule.intercept_ = classes, coef, intercept
        return rule

    def _logits(self, X: Shaped[np.ndarray, "rows width"]) -> Float64[np.ndarray, "rows logits"]:
        return X @ self.coef_.T + self.intercept_

    def decision_function(self, X: Shaped[np.ndarray, "rows width"]) -> np.ndarray:
        """Return logits: (rows,) for two classes, of the second; else (rows, classes)."""
        logits = self._logits(X)
        return logits[:, 0] if len(self.classes_) == 2 else logits

    def predict(self, X: Shaped[np.ndarray, "rows width"]) -> np.ndarray:
        """Return the most probable class of each row."""
        logits = self._logits(X)
        two = len(self.classes_) == 2
        return self.classes_[(logits[:, 0] > 0).astype(int) if two else logits.argmax(1)]

    def predict_proba(self, X: Shaped[np.ndarray, "rows width"]) -> np.ndarray:
        """Return probabilities, (rows, classes)."""
        logits = self._logits(X)
        two = len(self.classes_) == 2
        return expit(np.hstack([-logits, logits])) if two else softmax(logits, axis=1)

    def predict_log_proba(self, X: Shaped[np.ndarray, "rows width"]) -> np.ndarray:
        """Return logarithms of probabilities, (rows, classes)."""
        logits = self._logits(X)
        two = len(self.classes_) == 2
        return log_expit(np.hstack([-logits, logits])) if two else log_softmax(logits, axis=1)


_BLOCK = 8_192
"""Rows that are turned, or added to an evaluation, at a time."""

_DIGITS = 12
"""Of mean scores that are compared: beyond them equal strengths differ by rounding."""

Judge = Callable[[LinearRule, np.ndarray, Int64[np.ndarray, " judged"]], float]
"""Scores a classifier on rows (judged, width), given as it takes them, and by their numbers."""


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows that are left out of a fit, and judge it.

    Attributes:
        seen: whether the fit sees a row.
        judged: numbers of the rows that judge.
    """

    seen: Bool[np.ndarray, " rows"]
    judged: Int64[np.ndarray, " rows"]


@dataclass(frozen=True, eq=False)
class Fit:
    """A solution, and how it was found.

    Attributes:
        coef: weights of rows as they came, (logits, width).
        intercept: biases.
        l2: strength.
        iterations: of the solution.
        converged: whether it did.
        objective: its value there, as `LayerProbe` writes it.
        strengths: all that were tried, falling; empty where nothing was chosen.
        scores: of each of them, the mean over the folds.
    """

    coef: Float64[np.ndarray, "logits width"]
    intercept: Float64[np.ndarray, " logits"]
    l2: float
    iterations: int
    converged: bool
    objective: float
    strengths: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()


class Path:
    """Fits to the same rows, for falling strengths."""

    def __init__(
        self,
        rows: Float[Tensor, "n width"],
        numbers: Int64[np.ndarray, " n"],
        classes: np.ndarray,
        weights: Float64[np.ndarray, " n"],
        folds: Sequence[Fold],
    ) -> None:
        """Standardise the rows and turn them to their components.

        Args:
            rows: as they came.
            numbers: the class of each.
            classes: the classes.
            weights: of each row, above 0.
            folds: what judges, if a strength is to be chosen.
        """
        self._numbers, self._classes, self._folds = numbers, classes, folds
        self._weights = torch.from_numpy(weights)
        self._basis = _basis_of(rows, self._weights / self._weights.sum())
        self._z = torch.cat([self._basis.apply(block) for block in torch.split(rows, _BLOCK)])
        seen = np.stack([np.ones(len(numbers), bool), *(fold.seen for fold in folds)])
        self._parts = (torch.from_numpy(seen) * self._weights).float()
        targets, two = torch.from_numpy(numbers), len(classes) == 2
        self._loss: Loss = Binary(targets) if two else Softmax(targets, len(classes))

    def at(self, l2: float) -> Fit:
        """Return the fit of one strength."""
        minimum, objective = self._solve((l2,))
        return self._fit(objective, minimum, 0)

    def best(self, judge: Judge) -> Fit:
        """Return the fit of the strength that the folds score best, the strongest of equals.

        Where the weakest of those tried is the best, weaker ones are tried, to the path's end.
        """
        tried, scores = list[float](), list[float]()
        found: Fit | None = None
        while strengths := weaker_strengths(tried):
            minimum, objective = self._solve(strengths)
            scores += [self._score(objective, minimum, n, judge) for n in range(len(strengths))]
            tried += strengths
            best = int(np.argmax(scores))
            place = best - (len(tried) - len(strengths))
            if place >= 0:
                found = self._fit(objective, minimum, place)
            if best < len(tried) - 1:
                break
        assert found is not None, "the path has a first strength"
        return replace(found, strengths=tuple(tried), scores=tuple(scores))

    def _solve(self, strengths: Sequence[float]) -> tuple[Minimum, LinearObjective]:
        problems = Problems.of(strengths, self._parts)
        objective = LinearObjective(self._loss, problems, self._basis.spectrum)
        minimum = run_alone(objective.minimise(), partial(self._evaluated, objective))
        return minimum, objective

    def _evaluated(self, objective: LinearObjective, request: Request) -> Evaluation:
        found = objective.begin(request)
        for start in range(0, len(self._z), _BLOCK):
            block = self._z[start : start + _BLOCK]
            found.add(slice(start, start + len(block)), block)
        return found.finish()

    def _score(
        self, objective: LinearObjective, minimum: Minimum, place: int, judge: Judge
    ) -> float:
        """Return the mean score of a strength over the folds, each by the weight of its rows."""
        # Part by part, and strength by strength in each: part 0 are all rows, part n those that
        # fold n does not judge.
        n_strengths = len(minimum.points) // len(self._parts)
        sums = []
        for part, fold in enumerate(self._folds, start=1):
            at = part * n_strengths + place
            weight, bias, _ = objective.unpack(minimum.points[at : at + 1])
            rule = LinearRule.of(self._classes, weight[0].numpy(), bias[0].numpy())
            judged = torch.from_numpy(fold.judged)
            score = judge(rule, self._z[judged].numpy(), fold.judged)
            sums.append((float(self._weights[judged].sum()), score))
        total = sum(own for own, _ in sums)
        return round(sum(own * score for own, score in sums) / total, _DIGITS)

    def _fit(self, objective: LinearObjective, minimum: Minimum, place: int) -> Fit:
        """Return the fit to all rows of one of the strengths."""
        weight, bias, _ = objective.unpack(minimum.points[place : place + 1])
        coef, intercept = self._basis.folded(weight[0], bias[0])
        if len(intercept) > 1:  # what all logits have in common says nothing, and may be anything
            coef, intercept = coef - coef.mean(0), intercept - intercept.mean()
        return Fit(
            coef=coef.numpy(),
            intercept=intercept.numpy(),
            l2=float(objective.problems.l2[place]),
            iterations=int(minimum.iterations[place]),
            converged=bool(minimum.converged[place]),
            objective=float(minimum.value[place]),
        )


def _basis_of(rows: Float[Tensor, "n width"], shares: Float64[Tensor, " n"]) -> Basis:
    """Return the basis of rows that count by their shares, which sum to 1."""
    blocks = list(zip(torch.split(rows, _BLOCK), torch.split(shares, _BLOCK), strict=True))
    zero = torch.zeros(rows.shape[1], dtype=torch.float64)
    mean = sum((own @ block.double() for block, own in blocks), zero)
    square = sum((own @ (block.double() - mean).square() for block, own in blocks), zero)
    builder = BasisBuilder(Scale.of(mean, square.sqrt(), rows.dtype), len(rows))
    if builder.reads:
        for block, _ in blocks:
            builder.add(block)
    return builder.finish()
