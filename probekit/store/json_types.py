"""Types of JSON that a stranger may have written, checked before anything relies on them.

A type is a predicate of one value; `mistyped` says which of some named values have another.
`read_object` reads a file of such JSON.
"""

import json
import re
import sys
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

JsonType = Callable[[Any], bool]

_DEEPEST = 16

# control characters, half pairs of UTF-16, separators
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNNAMEABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff/\\]")


def whole(low: int, high: int) -> JsonType:
    """Accept whole numbers from ``low`` to ``high``; true and false are none."""
    return lambda value: type(value) is int and low <= value <= high


def number(value: Any) -> bool:
    """Accept finite numbers that floating point holds."""
    # A whole number of 400 digits is JSON, and no float.
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def text(value: Any) -> bool:
    """Accept text that can be written again: half pairs of UTF-16 are none."""
    return isinstance(value, str) and not _SURROGATE.search(value)


def is_name(value: object) -> bool:
    """Say whether a value can name one file or folder, and no other place."""
    return (
        isinstance(value, str)
        and value not in ("", ".", "..")
        and not _UNNAMEABLE.search(value)
        and len(value.encode()) <= 255
    )


def moment(value: Any) -> bool:
    """Accept a date and time in ISO 8601."""
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def one_of(*choices: Any) -> JsonType:
    """Accept some values, and no others that equal them (1 is not true)."""
    return lambda value: any(type(value) is type(choice) and value == choice for choice in choices)


boolean = one_of(True, False)


def optional(inner: JsonType) -> JsonType:
    """Accept null beside what another type accepts."""
    return lambda value: value is None or inner(value)


def list_of(inner: JsonType) -> JsonType:
    """Accept lists whose items are of one type."""
    return lambda value: isinstance(value, list | tuple) and all(map(inner, value))


def table_of(inner: JsonType, needed: Collection[str] = ()) -> JsonType:
    """Accept objects whose values are of one type.

    Args:
        inner: the type.
        needed: names that must be there.
    """
    return lambda value: (
        isinstance(value, Mapping)
        and all(map(text, value))
        and all(map(inner, value.values()))
        and all(name in value for name in needed)
    )


def fields_of(types: Mapping[str, JsonType], needed: Collection[str] = ()) -> JsonType:
    """Accept objects that have only plain values, those of some names in their types.

    Args:
        types: the type for each of these names.
        needed: names that must be there.
    """
    return lambda value: (
        plain(value)
        and isinstance(value, Mapping)
        and all(name in value for name in needed)
        and not mistyped(value, types)
    )


def plain(value: Any, deepest: int = _DEEPEST) -> bool:
    """Accept JSON that can be written again, and is not nested deep."""
    if isinstance(value, Mapping):
        return deepest > 0 and all(text(k) and plain(v, deepest - 1) for k, v in value.items())
    if isinstance(value, list | tuple):
        return deepest > 0 and all(plain(item, deepest - 1) for item in value)
    return value is None or text(value) or boolean(value) or number(value)


def mistyped(values: Mapping[str, Any], types: Mapping[str, JsonType]) -> list[str]:
    """Return the names among some values whose value is not of the type for that name."""
    return [name for name, fits in types.items() if name in values and not fits(values[name])]


@cache
def types_of(described: type) -> Mapping[str, JsonType]:
    """Return the JSON types that stand beside a class's fields: ``Annotated[int, whole(1, 9)]``."""
    hints = get_type_hints(described, include_extras=True).items()
    return {name: hint.__metadata__[0] for name, hint in hints if get_origin(hint) is Annotated}


def read_object(file: Path) -> dict[str, Any] | None:
    """Return the JSON object that a file holds, or None: it may be missing, torn or anybody's."""
    try:
        values = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None
