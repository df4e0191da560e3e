"""Confusion matrix: how often each gold class was predicted as which."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from probekit.metrics.contract import check_ids
from probekit.metrics.gold import Gold, Ids


class Confusion(NamedTuple):
    """How often each gold class was predicted as which.

    Attributes:
        rows: classes that the gold side has.
        columns: classes that were predicted.
        counts: rows of the split by gold class and predicted class, shape (rows, columns).
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: Int64[np.ndarray, "rows columns"]


def confusion(gold: Gold, predicted: Ids, groups: Sequence[str] | None = None) -> Confusion:
    """Count gold classes against predicted ones.

    Args:
        gold: the gold labels.
        predicted: one id per row, an index into ``gold.names``.
        groups: name under which each of ``gold.names`` is counted, such as the entity type of a
            tag; ``None`` counts every label for itself.

    Returns:
        Rows and columns in the order in which ``groups`` first names them; classes that do not
        occur are left out.

    Raises:
        OptionError: another number of predictions than rows, or an id outside ``gold.names``.
    """
    check_ids(gold, predicted)
    names = gold.names if groups is None else tuple(groups)
    kinds = tuple(dict.fromkeys(names))
    group = np.array([kinds.index(name) for name in names])
    counts = count_pairs(group[gold.ids], group[predicted], len(kinds))
    rows, columns = np.flatnonzero(counts.sum(1)), np.flatnonzero(counts.sum(0))
    return Confusion(
        tuple(kinds[i] for i in rows),
        tuple(kinds[i] for i in columns),
        counts[np.ix_(rows, columns)],
    )


def count_pairs(gold: Ids, predicted: Ids, n: int) -> Int64[np.ndarray, "n n"]:
    """Return how often each pair of ids below ``n`` occurs, gold along axis 0."""
    return np.bincount(gold * n + predicted, minlength=n * n).reshape(n, n).astype(np.int64)
