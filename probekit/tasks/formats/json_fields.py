"""The columns of the user's ``.jsonl`` and ``.json`` files."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from probekit.errors import DataError
from probekit.tasks.corpora.published import origin_of
from probekit.tasks.formats.encodings import own_lines
from probekit.tasks.formats.extensions import format_of
from probekit.tasks.formats.fields import Fields
from probekit.tasks.formats.json_values import json_value, json_values
from probekit.tasks.own.column_choice import Choice


def load_jsonl(path: Path, choice: Choice) -> Fields:
    """Read a ``.jsonl`` file: one object per line.

    Raises:
        DataError: a line that is no JSON object.
    """
    numbered = enumerate(own_lines(path, choice), start=1)
    lines = [(number, line) for number, line in numbered if line.strip(" \t")]
    values = ((number, json_value(line, f"{path}, line {number}")) for number, line in lines)
    return _of_records(path, values)


def load_json(path: Path, choice: Choice) -> Fields:
    """Read a ``.json`` file: a list of objects, one object after another, or one of columns.

    An object of columns gives each a list of values, or an object from the row's name to its value,
    as pandas writes it.

    Raises:
        DataError: it holds something else.
    """
    found = list(json_values("\n".join(own_lines(path, choice)), str(path)))
    if len(found) == 1 and isinstance(found[0][1], dict):
        columns = _columns(found[0][1], choice)
        if columns is not None:
            return _of_columns(path, columns)
    return _of_records(path, found)


def _columns(value: Mapping[str, Any], choice: Choice) -> dict[str, list[Any]] | None:
    """Return the columns of an object that holds nothing else; None where it is a record."""
    columns = {}
    for name, column in value.items():
        if not isinstance(column, list | dict):
            return None
        columns[name] = list(column.values()) if isinstance(column, dict) else column
    # Lists of strings are the words and labels of one sentence, where words are labelled.
    of_words = (choice.kind or "tagging") == "tagging"
    nested = any(isinstance(item, list) for column in columns.values() for item in column)
    return columns if columns and (nested or not of_words) else None


def _of_columns(path: Path, columns: Mapping[str, Sequence[Any]]) -> Fields:
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise DataError(f"{path}: columns of different lengths ({listed}); expected one length.")
    rows = range(1, next(iter(sizes.values())) + 1)
    return Fields(where=str(path), origin=origin_of(path), unit="row", lines=rows, values=columns)


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
    return Fields(where=str(path), origin=origin_of(path), unit="line", lines=lines, values=values)
