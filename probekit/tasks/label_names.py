"""Labels by name: classes and numbers as text, marks of none, and names that data sets give."""

import logging
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from probekit.base.fingerprint import parse_json
from probekit.base.notices import warn_once
from probekit.errors import reason_of

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
    marks = {name for name in names if name.lower() in MARKS}
    signs = {name for name in names - marks if not any(map(str.isalnum, name))} - {DASH, NO_LABEL}
    return marks if signs or DASH not in names else marks | {DASH}


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


logger = logging.getLogger(__name__)

_INNER = ("dtype", "sequence", "list")
"""What a data set's card calls the kind of a feature, or of what its lists hold."""
_CLASS_NUMBER = re.compile(r"-?[0-9]{1,9}(\.0)?")


def by_name(rows: Sequence[Any], names: Sequence[str] | None) -> Sequence[Any]:
    """Return the numbers of classes, or lists of them, by name; without names the rows themselves.

    A text that has no label has None. A number that stands for no label stays among the labels of
    words, where ``marks_among`` finds it; a column that has no other is one of None.
    """
    if names is None:
        return rows

    def name(value: Any) -> Any:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return names[value] if whole and 0 <= value < len(names) else value

    if all(item in _NONE for row in rows for item in (row if isinstance(row, list) else [row])):
        return [None] * len(rows)
    return [
        [*map(name, row)] if isinstance(row, list) else None if row in _NONE else name(row)
        for row in rows
    ]


_NONE = (None, *NUMBERS)  # no set: what is compared with them may be of any type


def names_of(feature: Any) -> Sequence[str] | None:
    """Return the names of a ClassLabel of ``datasets``, or of a list of them; None for others."""
    return getattr(getattr(feature, "feature", feature), "names", None)


def written_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the label names that ``datasets`` wrote into a Parquet file, by column.

    Raises:
        ValueError, TypeError, AttributeError, LookupError: something else is written there.
    """
    info = parse_json(metadata.get(b"huggingface", b"{}")).get("info", {})
    classes = {}
    for name, feature in info.get("features", {}).items():
        inner = feature.get("feature", feature) if isinstance(feature, dict) else feature[0]
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and inner.get("names"):
            classes[name] = names = inner["names"]
            if not (isinstance(names, list) and all(isinstance(text, str) for text in names)):
                raise TypeError(f"the classes of {name!r} are no list of names")
    return classes


def class_number(item: Any, classes: Sequence[str]) -> Any:
    """Return the number of a class, though written as text or as a float; what is none stays.

    Raises:
        ValueError: it is text that may be the number of one class and the name of another, or the
            number of no class.
    """
    text = class_text(item)
    if not isinstance(text, str) or not _CLASS_NUMBER.fullmatch(trim(text)):
        return item
    text, number = trim(text), int(float(text))
    if isinstance(item, str) and text in classes:
        if 0 <= number < len(classes) and classes[number] != text:
            raise ValueError(
                f"{text} is the name of a class and the number of another; write the names in the "
                "column, or other names in the card"
            )
        return item
    if number not in NUMBERS and not 0 <= number < len(classes):
        raise ValueError(
            f"{number} is no class of the card, which names 0 to {len(classes) - 1}; add the names "
            "of the others there"
        )
    return number


def card_names(card: Path) -> dict[str, list[str]]:
    """Return the names of classes by column that the card of a data set gives.

    Args:
        card: the file, ``README.md``, with ``dataset_info`` in front; it need not be there. Of what
            cannot be read there, a message tells.
    """
    if not card.is_file():
        return {}
    import yaml  # type: ignore[import-untyped]
    from huggingface_hub import metadata_load

    classes: dict[str, list[str]] = {}
    try:
        front = card.read_text("utf-8").partition("\n---")[0]
        tokens = yaml.scan(front) if front.startswith("---") else ()
        if any(isinstance(token, yaml.AliasToken) for token in tokens):
            raise ValueError("it repeats parts by a name, which may come to any size")
        info = (metadata_load(card) or {}).get("dataset_info", [])
        configs = info if isinstance(info, list) else [info]
        usual = [config for config in configs if config.get("config_name") == "default"]
        for feature in (feature for config in usual or configs for feature in config["features"]):
            inner = next((feature[key] for key in _INNER if key in feature), None)
            if isinstance(inner, dict) and "class_label" in inner:
                names = _feature_names(feature["name"], inner["class_label"]["names"])
                if names and classes.setdefault(feature["name"], names) != names:
                    raise ValueError(f"its configurations differ in {feature['name']!r}")
    except Exception as error:  # whatever a hand-written file makes of its reader
        warn_once(logger, f"{card}: what it says of classes cannot be read ({reason_of(error)}).")
        return {}
    return classes


def _feature_names(column: str, names: Any) -> list[str]:
    """Return the names that a card gives to the classes of a column: a list, or 0: O, 1: B-PER."""
    if not isinstance(names, list):
        numbers = sorted(names, key=int)
        if list(map(int, numbers)) != list(range(len(numbers))):
            raise ValueError(f"{column!r} numbers its classes {', '.join(map(str, numbers))}")
        names = [names[number] for number in numbers]
    for name in names:
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise ValueError(f"the class {name!r} of {column!r} is no text: put it in quotes")
    trimmed = [trim(str(name)) for name in names]
    if len(set(trimmed)) < len(trimmed):
        raise ValueError(f"two classes of {column!r} have one name")
    if marks := [name for name in trimmed if name.lower() in MARKS - {"_"}]:
        raise ValueError(f"the class {marks[0]!r} of {column!r} reads as no label")
    return trimmed
