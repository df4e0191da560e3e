"""Labels that the ``datasets`` library stores as numbers: its ClassLabel."""

from collections.abc import Sequence
from typing import Any

from probekit.tasks.own.unlabelled import NUMBERS

_NONE = {*NUMBERS, None}


def inner_feature(feature: Any) -> Any:
    """Return what a list holds, or the feature itself."""
    return getattr(feature, "feature", feature)


def class_names(feature: Any) -> Sequence[str] | None:
    """Return the names of a ClassLabel, or of a list of them; None for another feature."""
    return getattr(inner_feature(feature), "names", None)


def by_name(rows: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Return label numbers, or lists of them, by name; None for a text that has none.

    A number that stands for no label stays among the labels of words, where ``unlabelled`` finds
    it; a column that has no other is one of None.
    """
    if {one for row in rows for one in (row if isinstance(row, list) else [row])} <= _NONE:
        return [None] * len(rows)
    return [
        [_name(one, names) for one in row] if isinstance(row, list) else _label(row, names)
        for row in rows
    ]


def _label(value: Any, names: Sequence[str]) -> Any:
    return None if value in NUMBERS else _name(value, names)


def _name(value: Any, names: Sequence[str]) -> Any:
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value
