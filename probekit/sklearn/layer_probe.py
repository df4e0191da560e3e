"""A linear probe of a layer, or of several, as an estimator."""

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
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

from probekit.base.numbers.precision import full
from probekit.base.registry import choose
from probekit.base.selection import Selection
from probekit.errors import OptionError
from probekit.features.cached_rows import CachedRows
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import FusionHead, HeadSpec
from probekit.sklearn.layered_input import (
    LayeredRows,
    chosen_layers,
    in_layers,
    side_by_side,
)
from probekit.sklearn.strengths import Fit, Fold, Judge, LinearRule, Path
from probekit.train.sampling import fold_numbers, held_out


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
    if not isinstance(select, str):
        rows = np.zeros((len(numbers), 1))
        pairs = check_cv(select, numbers, classifier=True).split(rows, numbers, groups)
        return [_fold(np.asarray(seen), np.asarray(judged), len(numbers)) for seen, judged in pairs]
    own = Selection.parse(select)
    if own.kind not in ("cv", "hold-out"):
        raise OptionError(
            f"select={select!r}: an estimator is given one split, so its own rows have to choose: "
            "cv:K, hold-out:F or a splitter of scikit-learn; or give l2=."
        )
    names = np.arange(len(numbers)) if groups is None else np.asarray(groups)
    units, owner = np.unique(names, return_inverse=True)
    least = own.folds or 2
    if len(units) < least:
        what = "rows" if groups is None else "groups of rows"
        raise OptionError(
            f"select={select!r} needs {least} {what} or more, and there are {len(units)}: give "
            "fewer folds, or l2=."
        )
    if own.kind == "cv":
        fold = fold_numbers(len(units), own.folds)[owner]
        return [Fold(fold != n, np.flatnonzero(fold == n)) for n in range(1, own.folds + 1)]
    judged = np.isin(owner, held_out(len(units), own.share))
    return [Fold(~judged, np.flatnonzero(judged))]


def _fold(seen: np.ndarray, judged: np.ndarray, n_rows: int) -> Fold:
    mask = np.zeros(n_rows, bool)
    mask[seen] = True
    return Fold(mask, np.arange(n_rows)[judged])


_DTYPES = (np.float64, np.float32)


_NEAR = 30
"""Powers of two around 1 that squares and sums of rows have room for in any dtype."""


def _in_range(
    h: Float[Tensor, "n width"],
) -> tuple[Float[Tensor, "n width"], Int64[np.ndarray, " width"]]:
    """Return rows with every channel near 1, and the power of two by which each was divided.

    Nothing is rounded, and channels that are near already stay.
    """
    _, found = np.frexp(h.abs().amax(0).numpy())
    exponents = np.where(np.abs(found) > _NEAR, found, 0).astype(np.int64)
    if not exponents.any():
        return h, exponents
    return torch.from_numpy(np.ldexp(h.numpy(), -exponents)), exponents


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
        strength_scores_: of each, the mean over the folds.
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
        kept = np.flatnonzero(weights)  # a row that counts nothing takes no part
        if len(kept) < len(y):
            rows, y, weights = rows[kept], y[kept], weights[kept]
            groups = None if groups is None else groups[kept]
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise OptionError(
                f"y holds one class ({self.classes_[0]!r}) among {len(y)} rows, and a probe tells "
                "classes apart: give rows of two or more."
            )
        spec = self._head_spec()
        self.layers_ = chosen_layers(self.layer, spec.default_layers, rows.layers)
        h, exponents = _in_range(self._h(rows))
        if self.l2 is not None:
            found = Path(h, numbers, self.classes_, weights, []).at(self._strength(self.l2))
        else:
            path = Path(h, numbers, self.classes_, weights, folds_of(self.select, numbers, groups))
            found = path.best(self._judge(y, None if sample_weight is None else weights))
        return self._keep(found, exponents)

    def _rows_to_fit(self, X: Any, y: Any) -> tuple[LayeredRows, np.ndarray]:
        """Check rows and labels, and note what they look like."""
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

    def _rows_to_predict(self, X: Any) -> LayeredRows:
        """Check rows against those that were fitted.

        Raises:
            OptionError: they have other layers, or another width.
        """
        check_is_fitted(self)
        rows: LayeredRows
        if isinstance(X, CachedRows):
            rows = X
        else:
            X, n_layers = side_by_side(X, self.n_layers)
            X = validate_data(self, X, dtype=_DTYPES, reset=False)
            rows = in_layers(X, n_layers)
        if rows.layers != self.layers_in_ or rows.shape[1] * rows.shape[2] != self.n_features_in_:
            raise OptionError(
                f"this probe was fitted on rows of the layers {list(self.layers_in_)}, "
                f"{self.n_features_in_} values in all; found layers {list(rows.layers)} of width "
                f"{rows.shape[2]}. Give rows as they were given to fit."
            )
        return rows

    def _head_spec(self) -> HeadSpec:
        """Return the head's description.

        Raises:
            UnknownNameError: there is no such head.
            OptionError: it trains something.
        """
        spec = choose("head", self.head, HEADS)()
        if spec.trains != "nothing":
            able = ", ".join(name for name, one in HEADS.items() if one.trains == "nothing")
            raise OptionError(
                f"head={self.head!r} trains values of its own, and LayerProbe fits a linear "
                f"decoder alone: choose one of {able}, or train it with probekit.fit."
            )
        return spec

    def _h(self, rows: LayeredRows) -> Float[Tensor, "n width"]:
        """Return what the head makes of rows."""
        module = self._module(rows.shape[2])
        with torch.no_grad():
            return torch.cat([full(module(block)) for block in rows.blocks(self.layers_)])

    def _module(self, dim: int) -> FusionHead:
        # it trains nothing, and so draws nothing
        return self._head_spec().build(self.layers_, dim, torch.Generator())

    def _strength(self, l2: Any) -> float:
        """Return the strength that is given.

        Raises:
            OptionError: it is no number above 0.
        """
        if isinstance(l2, bool) or not isinstance(l2, Real) or not 0 < float(l2) < np.inf:
            raise OptionError(f"l2 must be a number above 0, or None to choose one; found {l2!r}.")
        return float(l2)

    def _judge(self, y: np.ndarray, weights: np.ndarray | None) -> Judge:
        """Return what scores a classifier on some of the rows."""
        scorer = check_scoring(self, scoring=self.scoring)

        def judge(rule: LinearRule, rows: np.ndarray, judged: np.ndarray) -> float:
            given = {} if weights is None else {"sample_weight": weights[judged]}
            return float(scorer(rule, rows, y[judged], **given))

        return judge

    def _keep(self, found: Fit, exponents: Int64[np.ndarray, " width"]) -> Self:
        """Keep what was found, and say where it is no optimum."""
        self.coef_, self.intercept_ = np.ldexp(found.coef, -exponents), found.intercept
        self.l2_, self.n_iter_, self.converged_ = found.l2, found.iterations, found.converged
        self.objective_ = found.objective
        self.strengths_ = np.array(found.strengths)
        self.strength_scores_ = np.array(found.scores)
        if not found.converged:
            warnings.warn(
                f"the fit at l2={found.l2:.3g} did not converge in {found.iterations} iterations; "
                "a larger l2 does.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _logits(self, X: Any) -> Float64[np.ndarray, "rows logits"]:
        rows = self._rows_to_predict(X)
        module = self._module(rows.shape[2])
        coef, bias = torch.from_numpy(self.coef_), torch.from_numpy(self.intercept_)
        with torch.no_grad():
            parts = [
                full(module(block)).double() @ coef.t() + bias
                for block in rows.blocks(self.layers_)
            ]
        return torch.cat(parts).numpy() if parts else np.empty((0, len(self.intercept_)))
