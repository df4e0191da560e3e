"""Label names as numbers: the classes of a column, or the numbers of a regression."""

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float64, Int64

from probekit.base.notices import warn_once
from probekit.errors import DataError
from probekit.tasks.label_names import NO_LABEL

logger = logging.getLogger(__name__)

_SHOWN = 5


@dataclass(frozen=True)
class LabelMap:
    """The classes of a label column, as a rule the sorted label names of the full train split.

    Attributes:
        names: label name of each class.
    """

    names: tuple[str, ...]

    @classmethod
    def from_labels(cls, labels: Iterable[Iterable[str]]) -> Self:
        """Return the map of all labels that occur; what has no label has no class."""
        names = {name for sentence in labels for name in sentence} - {NO_LABEL}
        return cls(tuple(sorted(names)))

    def widened(self, names: Sequence[str]) -> Self:
        """Return the map of the given names if they hold all of this map's, else this map."""
        return type(self)(tuple(names)) if set(self.names) <= set(names) else self

    def __len__(self) -> int:
        """Return the number of classes."""
        return len(self.names)

    def encode(self, labels: Sequence[str]) -> tuple[Int64[np.ndarray, " rows"], tuple[str, ...]]:
        """Turn label names into class numbers.

        A name that the map lacks gets a number from ``len(self)`` on, which no head predicts, so
        that it counts as an error.

        Returns:
            The class of each label, and the names beyond the map's own in the order of their
            numbers.
        """
        # Classes LOC, PER; labels PER, MISC, LOC: MISC is 2, the first number beyond the classes.
        known = {name: number for number, name in enumerate(self.names)}
        unseen = tuple(sorted(set(labels) - known.keys()))
        known.update({name: number for number, name in enumerate(unseen, start=len(self))})
        return np.fromiter((known[name] for name in labels), np.int64, len(labels)), unseen


def as_numbers(labels: Sequence[str], where: str) -> Float64[np.ndarray, " rows"]:
    """Return the labels of a regression as numbers.

    Raises:
        DataError: one of them is no finite number.
    """
    values = np.array([_number(label) for label in labels], np.float64)
    if not np.isfinite(values).all():
        wrong = labels[int(np.flatnonzero(~np.isfinite(values))[0])]
        raise DataError(
            f"{where}: {wrong!r} is no number, and a regression needs numbers. For classes give "
            "--kind sentence or pair."
        )
    return values


def _number(text: str) -> float:
    """Return a number; NaN of what is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def warn_unseen(labels: Sequence[str], label_map: LabelMap, where: str) -> None:
    """Log how many rows carry a label that neither train nor a saved head knows."""
    known = {*label_map.names, NO_LABEL}
    unseen = [name for name in labels if name not in known]
    if unseen:
        names = sorted(set(unseen))
        others = ", ..." if len(names) > _SHOWN else ""
        warn_once(
            logger,
            "%s: rows with a label that train does not have: %d (%s); each counts as an error.",
            where,
            len(unseen),
            f"{', '.join(names[:_SHOWN])}{others}",
        )
