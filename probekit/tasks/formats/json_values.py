"""JSON that a user gives: values with the line they begin in, or an error that names it."""

import json
from collections.abc import Iterator
from typing import Any

from probekit.errors import DataError

_DECODER = json.JSONDecoder()
_BLANKS = " \t\r\n"


def json_value(text: str, where: str) -> Any:
    """Return the one value that a text holds.

    Args:
        text: JSON.
        where: its place, for messages ("a.jsonl, line 2").

    Raises:
        DataError: it is not JSON, or holds what Python cannot take (half of a surrogate pair, a
            number of thousands of digits, lists nested a thousand times).
    """
    start = len(text) - len(text.lstrip(_BLANKS))
    value, end = _decode(text, start, where)
    if text[end:].strip(_BLANKS):
        raise DataError(f"{where}: not JSON (Extra data).")
    return value


def json_values(text: str, where: str) -> Iterator[tuple[int, Any]]:
    """Return the items of a list, or values that follow each other, each with its line.

    Args:
        text: one list, or any number of values, over as many lines as they like.
        where: the file, for messages.

    Raises:
        DataError: as for ``json_value``.
    """
    place, line, seen = _skip(text, 0, _BLANKS), 1, 0
    listed = text.startswith("[", place)
    place += listed
    while (place := _skip(text, place, _BLANKS)) < len(text):
        line, seen = line + text.count("\n", seen, place), place
        if listed and text[place] == "]":
            if text[place + 1 :].strip(_BLANKS):
                raise DataError(f"{where}, line {line}: not JSON (Extra data behind the list).")
            return
        value, place = _decode(text, place, f"{where}, line {line}")
        yield line, value
        place = _skip(text, place, _BLANKS)
        if listed:
            place = _next(text, place, f"{where}, line {line}")
    if listed:
        raise DataError(f"{where}: not JSON (the list is not closed; is the file cut short?).")


def _next(text: str, place: int, where: str) -> int:
    """Return the place behind the comma after an item, or that of the list's end."""
    if text[place : place + 1] not in (",", "]"):
        raise DataError(f"{where}: not JSON (Expecting ',' delimiter after this item).")
    return place + (text[place] == ",")


def _decode(text: str, start: int, where: str) -> tuple[Any, int]:
    """Return the value at a place of a text, and the place behind it."""
    try:
        value, end = _DECODER.raw_decode(text, start)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON ({error.msg}).") from error
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: half of a surrogate pair (\\u escape) is no character."
        ) from error
    except RecursionError as error:
        raise DataError(f"{where}: lists or objects nested too deeply to be read.") from error
    except ValueError as error:
        raise DataError(
            f"{where}: a whole number with more digits than Python reads; write it as a string."
        ) from error
    return value, end


def _skip(text: str, place: int, characters: str) -> int:
    """Return the first place from ``place`` on that holds none of ``characters``."""
    while place < len(text) and text[place] in characters:
        place += 1
    return place
