"""What predictions are scored against (classes, values, losses), and which classes are mistaken."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from probekit.errors import DataError, OptionError

Ids = Int64[np.ndarray, " words"]
Values = Float64[np.ndarray, " rows"]
Offsets = Int64[np.ndarray, " bounds"]


@dataclass(frozen=True)
class Gold:
    """The gold labels of a split, as ids.

    Attributes:
        ids: one id per word (per text for labels of whole texts), an index into ``names``;
            examples one after another.
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
        _check_bounds("word", len(self.ids), self.offsets)
        if not all(self.names) or len(set(self.names)) != len(self.names):
            raise DataError(f"label names must be distinct and not empty; found {self.names}.")
        if self.ids.min() < 0 or self.ids.max() >= len(self.names):
            raise DataError(
                f"gold label ids must lie in 0..{len(self.names) - 1}; found {self.ids.min()} to "
                f"{self.ids.max()}. Give labels unseen in train a name and an id of their own "
                "(encode_gold does)."
            )

    def check(self, predicted: Ids) -> None:
        """Raise OptionError unless there is one prediction per word, each an index into names."""
        check_count(predicted, len(self.ids), "word")
        if predicted.min() < 0 or predicted.max() >= len(self.names):
            raise OptionError(
                f"predictions must be label ids in 0..{len(self.names) - 1}; found "
                f"{predicted.min()} to {predicted.max()}."
            )


@dataclass(frozen=True)
class ValueGold:
    """The gold values of a split, for regressions.

    Attributes:
        values: one finite number per row.
        offsets: example e owns rows ``offsets[e]:offsets[e + 1]``; shape (examples + 1,).
    """

    values: Values
    offsets: Offsets

    def __post_init__(self) -> None:
        """Check values and offsets.

        Raises:
            DataError: no values, one that is not finite, or offsets that do not cover them.
        """
        _check_bounds("value", len(self.values), self.offsets)
        if not np.isfinite(self.values).all():
            row = int(np.flatnonzero(~np.isfinite(self.values))[0])
            raise DataError(f"gold values must be finite; row {row} is {self.values[row]}.")


@dataclass(frozen=True)
class LossGold:
    """How many losses a split has; they already hold the comparison with its targets.

    Attributes:
        n_rows: number of rows, at least one.
        offsets: example e owns rows ``offsets[e]:offsets[e + 1]``; None where every row counts as
            an example of its own.
    """

    n_rows: int
    offsets: Offsets | None = None

    def __post_init__(self) -> None:
        """Check that there is a row, and that offsets fit.

        Raises:
            DataError: there is none, or offsets do not cover the rows.
        """
        if self.n_rows < 1:
            raise DataError("there is no row to score: the split is empty.")
        if self.offsets is not None:
            _check_bounds("row", self.n_rows, self.offsets)


AnyGold = Gold | ValueGold | LossGold


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


def _check_bounds(noun: str, count: int, bounds: Offsets) -> None:
    if count == 0:
        raise DataError(f"there is no {noun} to score: the split is empty.")
    if bounds[0] != 0 or bounds[-1] != count or (np.diff(bounds) < 0).any():
        raise DataError(
            f"offsets must rise from 0 to the number of {noun}s, {count}; found "
            f"{bounds[0]} to {bounds[-1]}."
        )


def check_count(predicted: Ids | Values, expected: int, noun: str) -> None:
    """Raise OptionError unless there are as many predictions as expected."""
    if len(predicted) != expected:
        raise OptionError(
            f"expected {expected} predictions, one per {noun}; found {len(predicted)}."
        )


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
    gold.check(predicted)
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
