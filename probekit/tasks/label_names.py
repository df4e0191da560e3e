"""Labels by name: classes and numbers as text, and the marks that say that there is none."""

import struct
from collections.abc import Iterable
from typing import Any

NO_LABEL = ""
"""The label of a word that has none: it is neither fitted on nor scored."""

NUMBERS = frozenset({-1, -100})
"""Numbers that stand for no label in unlabelled splits and in losses."""

MARKS = frozenset(
    {"_", "n/a", "nan", "<na>", "#n/a", "null", *map(str, NUMBERS), *(f"{n}.0" for n in NUMBERS)}
)
"""Marks of treebanks and of tables in lower case, and those numbers, as tables write floats too."""

DASH = "-"
"""A mark too, but where other labels are signs it is one of them ("+" and "-", "." and "-")."""

_UNSEEN = "\ufeff\u200b\u2060"
"""Characters that no editor shows and ``str.strip`` leaves: byte order mark, zero-width ones."""


def trim(cell: str) -> str:
    """Return a label, or the name of a column, without what surrounds it unseen.

    That is white space of every kind (no-break spaces, line ends) and marks without width. Words
    and texts are never trimmed so: a no-break space may be one.
    """
    shorter = cell.strip().strip(_UNSEEN)
    return cell if shorter == cell else trim(shorter)


def class_text(value: Any) -> Any:
    """Return a class as text; what can be none stays as it is.

    Whole numbers become floats where a column has gaps.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return value


def marks_among(labels: Iterable[str]) -> set[str]:
    """Return those of the labels of a column that say that there is none."""
    names = set(labels)
    found = {name for name in names if name.lower() in MARKS}
    signs = {name for name in names - found if not any(map(str.isalnum, name))} - {DASH, NO_LABEL}
    return found if signs or DASH not in names else found | {DASH}


LARGEST = 3.4028234663852886e38
"""Of the numbers that are labels: data sets and loaders have them in float32."""


def is_number(label: str) -> bool:
    """Return whether a label reads as a number that float32 has room for."""
    try:
        return "_" not in label and abs(float(label)) <= LARGEST
    except ValueError:
        return False


def score_name(value: float) -> str:
    """Return a score by the one name that it has in a table of text ("3.8") and on the Hub.

    The Hub stores float32. The name is the shortest decimal that means the same float32, with at
    least three digits after the point: 3.8 and 3.799999952316284 are both "3.800".
    """
    rounded = _float32(value)
    near = (f"{rounded:.{digits}f}" for digits in range(3, 10))
    return next((name for name in near if _float32(float(name)) == rounded), repr(rounded))


def _float32(value: float) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return float(rounded)
