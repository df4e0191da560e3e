"""What of the rows that are fitted judges the strengths of L2."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int64
from sklearn.model_selection import check_cv

from probekit.base.selection import Selection
from probekit.errors import OptionError
from probekit.sklearn.strengths import Fold
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
