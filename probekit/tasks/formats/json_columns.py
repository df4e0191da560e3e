"""The columns of the user's ``.jsonl`` and ``.json`` files.

Every value comes with the line it begins in, for messages, which ``pyarrow`` does not tell; nor
does it take a column whose values have several types, or whole numbers of any size.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from probekit.errors import DataError
from probekit.tasks.formats.fields import Fields
from probekit.tasks.formats.file_names import format_of
from probekit.tasks.formats.text_lines import own_lines
from probekit.tasks.text_options import Choice

_DECODER = json.JSONDecoder()
_BLANKS = " \t\r\n"


def load_jsonl(path: Path, choice: Choice) -> Fields:
    """Read a ``.jsonl`` file: one object per line.

    Raises:
        DataError: a line that is no JSON object.
    """
    numbered = enumerate(own_lines(path, choice.encoding), start=1)
    lines = [(number, line) for number, line in numbered if line.strip(" \t")]
    values = ((n, _decoded(_DECODER.decode, f"{path}, line {n}", line)) for n, line in lines)
    return _of_records(path, values)


def load_json(path: Path, choice: Choice) -> Fields:
    """Read a ``.json`` file: a list of objects, one object after another, or one of columns.

    An object of columns gives each a list of values, or an object from the row's name to its value,
    as pandas writes it.

    Raises:
        DataError: it holds something else.
    """
    found = list(_values("\n".join(own_lines(path, choice.encoding)), str(path)))
    first = found[0][1] if len(found) == 1 else None
    columns = _columns(first, choice) if isinstance(first, dict) else None
    if columns is None:
        return _of_records(path, found)
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise DataError(f"{path}: columns of different lengths ({listed}); expected one length.")
    return Fields.of_file(path, columns)


def _columns(value: Mapping[str, Any], choice: Choice) -> dict[str, list[Any]] | None:
    """Return the columns of an object that holds nothing else; None where it is a record."""
    if not all(isinstance(column, list | dict) for column in value.values()):
        return None
    columns = {
        name: list(column.values()) if isinstance(column, dict) else column
        for name, column in value.items()
    }
    # Lists of strings are the words and labels of one sentence, where words are labelled.
    of_words = choice.of_kind.per == "word"
    nested = any(isinstance(item, list) for column in columns.values() for item in column)
    return columns if columns and (nested or not of_words) else None


def _of_records(path: Path, found: Iterable[tuple[int, Any]]) -> Fields:
    """Return the columns of objects, each with its line."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    for line, value in found:
        if not isinstance(value, dict):
            kind = type(value).__name__
            expected = "one JSON object per line" if format_of(path) == ".jsonl" else "JSON objects"
            raise DataError(f"{path}, line {line}: expected {expected}, found {kind}.")
        rows.append(value)
        lines.append(line)
    names = dict.fromkeys(name for row in rows for name in row)
    values = {name: [row.get(name) for row in rows] for name in names}
    return Fields.of_file(path, values, lines)


def _values(text: str, where: str) -> Iterator[tuple[int, Any]]:
    """Return the items of a list, or values that follow each other, each with its line.

    Args:
        text: one list, or any number of values, over as many lines as they like.
        where: the file, for messages.

    Raises:
        DataError: as for ``_decoded``.
    """
    place, line, seen = _behind_blanks(text, 0), 1, 0
    listed = text.startswith("[", place)
    place += listed
    while (place := _behind_blanks(text, place)) < len(text):
        line, seen = line + text.count("\n", seen, place), place
        if listed and text[place] == "]":
            if _behind_blanks(text, place + 1) < len(text):
                raise DataError(f"{where}, line {line}: not JSON (Extra data behind the list).")
            return
        value, end = _decoded(_DECODER.raw_decode, f"{where}, line {line}", text, place)
        yield line, value
        place = _behind_blanks(text, end)
        if listed and text[place : place + 1] not in (",", "]"):
            fault = "Expecting ',' delimiter after this item"
            raise DataError(f"{where}, line {line}: not JSON ({fault}).")
        place += listed and text[place] == ","
    if listed:
        raise DataError(f"{where}: not JSON (the list is not closed; is the file cut short?).")


def _decoded(decode: Callable[..., Any], where: str, *text: str | int) -> Any:
    """Return what a function of ``json`` makes of a text.

    Args:
        decode: the function.
        where: the place of the text, for messages ("a.jsonl, line 2").
        text: what it takes.

    Raises:
        DataError: it is not JSON, or holds what Python cannot take (half of a surrogate pair, a
            number of thousands of digits, lists nested a thousand times).
    """
    try:
        found = decode(*text)
        json.dumps(found, ensure_ascii=False).encode()
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
    return found


def _behind_blanks(text: str, place: int) -> int:
    """Return the first place from ``place`` on that holds no blank."""
    while place < len(text) and text[place] in _BLANKS:
        place += 1
    return place
