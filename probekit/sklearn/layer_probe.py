"""A linear probe of a layer, or of several, as an estimator."""

import warnings
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64, Shaped
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)
from torch import Tensor

from probekit.base.registry import choose
from probekit.base.selection import Selection
from probekit.base.tensors import full
from probekit.errors import OptionError
from probekit.features.rows import CachedRows
from probekit.probe.fitters.losses import Binary, Loss, Softmax
from probekit.probe.fitters.preconditioner import Basis, BasisBuilder, Scale
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import HeadSpec
from probekit.sklearn.layered_input import LayeredRows, chosen_layers, in_layers, side_by_side
from probekit.train.sampling import fold_numbers, held_out
from probekit.train.solving.solved_fit import HELD_ROWS, Solved
from probekit.train.solving.strength_path import Path, solve_rows

_DTYPES = (np.float64, np.float32)

_DIGITS = 12
"""Of mean scores that are compared: beyond them equal strengths differ by rounding."""

Fold = tuple[Bool[np.ndarray, " rows"], Int64[np.ndarray, " judged"]]
"""Which rows a fit sees, and the numbers of those that judge it."""


def folds_of(
    select: Any, numbers: Int64[np.ndarray, " rows"], groups: Sequence[Any] | None
) -> list[Fold]:
    """Return the folds that a selection asks for.

    Args:
        select: ``cv:K`` or ``hold-out:F``, cut as runs cut their sentences; or what scikit-learn
            takes for ``cv``: a number, a splitter, or pairs of row numbers.
        numbers: the class of each row.
        groups: what each row belongs to; None lets every row stand for itself.

    Raises:
        OptionError: a selection that does not choose among the rows, or more folds than groups.
    """
    every = np.arange(len(numbers))
    if not isinstance(select, str):
        pairs = check_cv(select, numbers, classifier=True).split(every[:, None], numbers, groups)
        return [(np.isin(every, every[seen]), every[judged]) for seen, judged in pairs]
    chosen = Selection.parse(select)
    if chosen.kind not in ("cv", "hold-out"):
        raise OptionError(
            f"select={select!r}: an estimator is given one split, so its own rows have to choose: "
            "cv:K, hold-out:F or a splitter of scikit-learn; or give l2=."
        )
    units, owner = np.unique(every if groups is None else np.asarray(groups), return_inverse=True)
    least = chosen.folds or 2
    if len(units) < least:
        unit_names = "rows" if groups is None else "groups of rows"
        raise OptionError(
            f"select={select!r} needs {least} {unit_names} or more, and there are {len(units)}: "
            "give fewer folds, or l2=."
        )
    if chosen.kind == "cv":
        fold = fold_numbers(len(units), chosen.folds)[owner]
    else:
        fold = np.isin(owner, held_out(len(units), chosen.share)).astype(int)
    return [(fold != n, np.flatnonzero(fold == n)) for n in range(1, int(fold.max()) + 1)]


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

    def _logits(self, X: Any) -> Float64[np.ndarray, "rows logits"]:
        logits: Float64[np.ndarray, "rows logits"] = X @ self.coef_.T + self.intercept_
        return logits

    def _by_class(self, X: Any) -> Float64[np.ndarray, "rows classes"]:
        """Return a logit of every class: of two, that of the first one is 0."""
        logits = self._logits(X)
        two = len(self.classes_) == 2
        return np.hstack([np.zeros_like(logits), logits]) if two else logits

    def decision_function(self, X: Any) -> np.ndarray:
        """Return logits: (rows,) for two classes, of the second; else (rows, classes)."""
        logits = self._logits(X)
        return logits[:, 0] if len(self.classes_) == 2 else logits

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row."""
        places = self._by_class(X).argmax(1)
        return self.classes_[places]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return probabilities, (rows, classes)."""
        return softmax(self._by_class(X), axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return logarithms of probabilities, (rows, classes)."""
        return log_softmax(self._by_class(X), axis=1)


class LayerProbe(LinearRule):
    """Logistic regression on a layer, at the best strength of L2, solved to the optimum.

    What is minimised over W and b, with h the row that the head makes of the layers, and weights v
    of the rows that sum to 1::

        sum_i v_i crossentropy(W s(h_i) + b, y_i) + l2 / 2 |W|^2

    ``s`` standardises each channel by mean and deviation of the rows that are fitted, so that one
    strength means the same at every layer; ``coef_`` and ``intercept_`` are for rows as they came.
    Two classes have one logit. On standardised rows scikit-learn's ``LogisticRegression`` has the
    same optimum at ``C = 1 / (n l2)`` for n rows.

    Args:
        layer: which layer is read, or several as ``--layers`` writes them (``"1:"``, ``"-1"``,
            ``"0,6,12"``). None is what the head reads by default: of ``last`` the last one.
        head: what makes one row of several layers: ``last``, ``mean``, or ``concat-ffn`` (side by
            side); only heads that train nothing.
        l2: strength of the penalty; None chooses the best by ``select``, among 10, 1.8, 0.32, ...
            (falling until one is no longer the best), the strongest of equals.
        select: what judges the strengths: ``"cv:5"`` or ``"hold-out:0.1"`` cut rows as runs of
            probekit cut sentences; or what ``cv`` of scikit-learn takes (a number, a splitter).
        scoring: what they are judged by, as ``scoring`` of scikit-learn: None is accuracy.
        n_layers: how many layers lie side by side in the columns of an X of two dimensions.

    Attributes:
        classes_: the classes, sorted.
        coef_: (1, width) for two classes, else (classes, width): directions in the space of h.
        intercept_: one for each of them.
        layers_: the layers that are read.
        l2_: the strength.
        strengths_: all that were tried, falling; empty if ``l2`` was given.
        strength_scores_: of each, the mean over the folds; of one left before the end, as it was.
        n_iter_: iterations of L-BFGS at that strength.
        converged_: whether it converged; if not, a ``ConvergenceWarning`` says so.
        objective_: what was minimised, at the end.
        n_features_in_: values of a row, all layers together.
        layers_in_: the layers of X.
    """

    def __init__(
        self,
        layer: int | str | None = None,
        *,
        head: str = "last",
        l2: float | None = None,
        select: Any = "cv:5",
        scoring: Any = None,
        n_layers: int | None = None,
    ) -> None:
        """Keep the options; they are checked when rows are fitted."""
        self.layer = layer
        self.head = head
        self.l2 = l2
        self.select = select
        self.scoring = scoring
        self.n_layers = n_layers

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit a probe.

        Args:
            X: (rows, dim); (rows, layers, dim), or the same with ``n_layers`` side by side; or the
                ``X`` of ``features.rows(split)``, of which the chosen layers alone are read.
            y: the label of each row.
            sample_weight: how much each row counts, 0 or more; None counts all alike.
            groups: rows of one group stay on one side of the cuts that ``select`` makes; None is
                ``X.groups`` of rows of a cache: their sentences.

        Raises:
            OptionError: an option cannot be used, or y holds one class.
            ValueError: what scikit-learn refuses of X, y or the weights.
        """
        rows, y = self._rows_to_fit(X, y)
        weights = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
        groups = rows.groups if groups is None else np.asarray(groups)
        weights = weights / (weights.max() or 1.0)  # so that no sum of them overflows
        counting = np.flatnonzero(weights)  # a row that counts nothing takes no part
        if len(counting) < len(y):
            rows, y, weights = rows[counting], y[counting], weights[counting]
            groups = None if groups is None else groups[counting]
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise OptionError(
                f"y holds one class ({self.classes_[0]!r}) among {len(y)} rows, and a probe tells "
                "classes apart: give rows of two or more."
            )
        self.layers_ = chosen_layers(self.layer, self._head_spec().default_layers, rows.layers)
        h = torch.cat(list(self._read(rows)))
        l2: Any = self.l2
        if l2 is None:
            folds = folds_of(self.select, numbers, groups)
        elif isinstance(l2, bool) or not isinstance(l2, Real) or not 0 < float(l2) < np.inf:
            raise OptionError(f"l2 must be a number above 0, or None to choose one; found {l2!r}.")
        else:
            folds = []
        path, basis = self._solve(h, y, numbers, weights, folds, weighted=sample_weight is not None)
        solved, index = path.chosen
        weight, bias, *_ = solved.objective.unpack(solved.of_parts(index)[:1])
        coef, intercept = basis.folded(weight[0], bias[0])
        if len(intercept) > 1:  # what all logits have in common says nothing, and may be anything
            coef, intercept = coef - coef.mean(0), intercept - intercept.mean()
        self.coef_, self.intercept_ = coef.numpy(), intercept.numpy()
        diagnosis = solved.said(index)
        self.l2_, self.objective_ = diagnosis["strength"], diagnosis["objective"]
        self.n_iter_, self.converged_ = diagnosis["iterations"], diagnosis["converged"]
        chosen = self.l2 is None
        self.strengths_ = np.array(path.strengths if chosen else [])
        self.strength_scores_ = np.array(path.scores if chosen else [])
        if not self.converged_:
            warnings.warn(
                f"the fit at l2={self.l2_:.3g} did not converge in {self.n_iter_} iterations; "
                "a larger l2 does.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _solve(
        self,
        h: Float[Tensor, "n width"],
        y: np.ndarray,
        numbers: Int64[np.ndarray, " n"],
        weights: Float64[np.ndarray, " n"],
        folds: Sequence[Fold],
        *,
        weighted: bool,
    ) -> tuple[Path, Basis]:
        """Solve for the strength, or along the path; the folds score each of the strengths.

        Args:
            h: what the head makes of the rows.
            y: their labels.
            numbers: the class of each.
            weights: of each row, above 0.
            folds: what judges; none where the strength is given.
            weighted: tell the scorer the weights.
        """
        basis = _basis_of(h, torch.from_numpy(weights / weights.sum()))
        z = torch.cat([basis.apply(block) for block in torch.split(h, HELD_ROWS)])
        seen = np.stack([np.ones(len(y), bool), *(seen for seen, _ in folds)])
        parts, targets = torch.from_numpy(seen * weights).float(), torch.from_numpy(numbers)
        two = len(self.classes_) == 2
        loss: Loss = Binary(targets) if two else Softmax(targets, len(self.classes_))
        scorer: Any = check_scoring(self, scoring=self.scoring) if folds else None

        def score(solved: Solved) -> list[float]:
            """Return the mean over the folds, each by the weight of the rows that judge."""
            sums = np.zeros(len(solved.strengths))
            for part, (_, judged) in enumerate(folds, start=1):
                weighting = {"sample_weight": weights[judged]} if weighted else {}
                rows = z[torch.from_numpy(judged)].numpy()
                for index in range(len(solved.strengths)):
                    found = solved.objective.unpack(solved.of_parts(index)[part : part + 1])
                    rule = LinearRule()
                    rule.coef_, rule.intercept_ = found[0][0].numpy(), found[1][0].numpy()
                    rule.classes_ = self.classes_
                    of_fold = float(scorer(rule, rows, y[judged], **weighting))
                    sums[index] += weights[judged].sum() * of_fold
            total = sum(weights[judged].sum() for _, judged in folds) or 1.0
            return [round(mean, _DIGITS) for mean in (sums / total).tolist()]

        l2 = None if self.l2 is None else float(self.l2)
        n_judged = sum(len(judged) for _, judged in folds)
        path = solve_rows(z, loss, parts, basis.spectrum, l2=l2, score=score, n_judged=n_judged)
        return path, basis

    def _rows_to_fit(self, X: Any, y: Any) -> tuple[LayeredRows, np.ndarray]:
        """Check rows and labels, and note what they look like."""
        shape: tuple[int, ...] = getattr(y, "shape", ())
        if len(shape) == 2 and shape[1] > 1:
            raise OptionError(
                f"y has {shape[1]} columns, and LayerProbe tells classes apart: fit one per label "
                "with sklearn.multiclass.OneVsRestClassifier(LayerProbe(...)), or train a run of "
                "kind multilabel with probekit.fit."
            )
        rows: LayeredRows
        if isinstance(X, CachedRows):
            rows, y = X, column_or_1d(y, warn=True)
            check_consistent_length(X, y)
            self.n_features_in_ = X.shape[1] * X.shape[2]
        else:
            X, n_layers = side_by_side(X, self.n_layers)
            X, y = validate_data(self, X, y, dtype=_DTYPES)
            rows = in_layers(X, n_layers)
        check_classification_targets(y)
        self.layers_in_ = rows.layers
        return rows, y

    def _head_spec(self) -> HeadSpec:
        """Return the head's description.

        Raises:
            UnknownNameError: there is no such head.
            OptionError: it trains something.
        """
        spec = choose("head", self.head, HEADS)()
        if spec.trains != "nothing":
            able = ", ".join(name for name, kind in HEADS.items() if kind.trains == "nothing")
            raise OptionError(
                f"head={self.head!r} trains values of its own, and LayerProbe fits a linear "
                f"decoder alone: choose one of {able}, or train it with probekit.fit."
            )
        return spec

    @torch.no_grad()
    def _read(self, rows: LayeredRows) -> Iterator[Float[Tensor, "n width"]]:
        """Yield what the head makes of rows, in blocks; it trains nothing, and so draws nothing."""
        module = self._head_spec().build(self.layers_, rows.shape[2], torch.Generator())
        for block in rows.blocks(self.layers_):
            yield full(module(block))

    def _logits(self, X: Any) -> Float64[np.ndarray, "rows logits"]:
        """Return the logits of rows that look like those that were fitted.

        Raises:
            OptionError: they have other layers, or another width.
        """
        check_is_fitted(self)
        if isinstance(X, CachedRows):
            rows: LayeredRows = X
        else:
            X, n_layers = side_by_side(X, self.n_layers)
            rows = in_layers(validate_data(self, X, dtype=_DTYPES, reset=False), n_layers)
        if rows.layers != self.layers_in_ or rows.shape[1] * rows.shape[2] != self.n_features_in_:
            raise OptionError(
                f"this probe was fitted on rows of the layers {list(self.layers_in_)}, "
                f"{self.n_features_in_} values in all; found layers {list(rows.layers)} of width "
                f"{rows.shape[2]}. Give rows as they were given to fit."
            )
        coef, bias = torch.from_numpy(self.coef_), torch.from_numpy(self.intercept_)
        parts = [h.double() @ coef.t() + bias for h in self._read(rows)]
        return torch.cat(parts).numpy() if parts else np.empty((0, len(bias)))


def _basis_of(rows: Float[Tensor, "n width"], shares: Float64[Tensor, " n"]) -> Basis:
    """Return the basis of rows that count by their shares, which sum to 1."""
    blocks = list(zip(torch.split(rows, HELD_ROWS), torch.split(shares, HELD_ROWS), strict=True))
    zero = torch.zeros(rows.shape[1], dtype=torch.float64)
    mean = sum((share @ block.double() for block, share in blocks), zero)
    square = sum((share @ (block.double() - mean).square() for block, share in blocks), zero)
    builder = BasisBuilder(Scale.of(mean, square.sqrt(), rows.dtype), len(rows))
    for block, _ in blocks if builder.reads else ():
        builder.add(block)
    return builder.finish()
