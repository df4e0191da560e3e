"""The user's own ``.jsonl`` and ``.parquet`` files: lists of tokens and lists of labels."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from probekit.errors import DataError, MissingFileError
from probekit.tasks.lines import read_lines
from probekit.tasks.options import Choice, only_label, only_text, place_of
from probekit.tasks.published import origin_of
from probekit.tasks.sentences import Sentence, Sentences

USUAL_WORDS = ("tokens", "words")


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The examples of a file by column.

    Attributes:
        path: the file.
        unit: what ``lines`` counts.
        lines: the line or row of each example.
        values: column to one value per example (None where it is missing).
    """

    path: Path
    unit: Literal["line", "row"]
    lines: Sequence[int]
    values: Mapping[str, Sequence[Any]]

    def place(self, number: int) -> str:
        """Name the file and the line of an example, for messages."""
        return f"{self.path}, {self.unit} {self.lines[number]}"


def read_jsonl(path: Path, choice: Choice) -> Sentences:
    """Read a ``.jsonl`` file: one object per line."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip(" \t"):
            rows.append(_object(path, number, line))
            lines.append(number)
    names = dict.fromkeys(name for row in rows for name in row)
    values = {name: [row.get(name) for row in rows] for name in names}
    return _sentences(Fields(path=path, unit="line", lines=lines, values=values), choice)


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {number}: not JSON ({error.msg}).") from error
    except UnicodeEncodeError as error:
        raise DataError(
            f"{path}, line {number}: half of a surrogate pair (\\u escape) is no character."
        ) from error
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise DataError(f"{path}, line {number}: expected one JSON object per line, found {kind}.")
    return value


def read_parquet(path: Path, choice: Choice) -> Sentences:
    """Read a ``.parquet`` file; numbers of a ``datasets`` ClassLabel become their names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise MissingFileError(f"{path}: no such file.")
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}).") from error
    values = {name: table.column(name).to_pylist() for name in table.column_names}
    for name, labels in _class_names(table.schema.metadata or {}).items():
        if name in values:
            values[name] = [_named(row, labels) for row in values[name]]
    lines = range(1, table.num_rows + 1)
    return _sentences(Fields(path=path, unit="row", lines=lines, values=values), choice)


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the label names that ``datasets`` wrote into the file, by column."""
    info = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {})
    found = {}
    for name, feature in info.get("features", {}).items():
        inner = feature.get("feature", feature) if isinstance(feature, dict) else feature[0]
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and "names" in inner:
            found[name] = inner["names"]
    return found


def _named(row: Any, names: Sequence[str]) -> Any:
    """Return a list of label numbers as names; all -1 (no labels) as None."""
    if not isinstance(row, list) or (row and set(row) == {-1}):
        return None
    return [names[v] if isinstance(v, int) and 0 <= v < len(names) else v for v in row]


def _sentences(fields: Fields, choice: Choice) -> Sentences:
    where = str(fields.path)
    origin = origin_of(fields.path)
    if not fields.lines:
        return Sentences(sentences=(), where=where, origin=origin)
    lists = [name for name, values in fields.values.items() if _is_list_column(values)]
    names = list(fields.values)
    if choice.text is None:
        word = only_text(where, lists, USUAL_WORDS)
    else:
        word = names[place_of(where, "--text", choice.text, names)]
    label = _label(where, choice, names, [name for name in lists if name != word])
    sentences = tuple(_sentence(fields, n, word, label) for n in range(len(fields.lines)))
    return Sentences(sentences=sentences, where=where, origin=origin, unit=fields.unit)


def _label(where: str, choice: Choice, names: Sequence[str], lists: Sequence[str]) -> str | None:
    if choice.label is None or not lists:
        return only_label(where, lists)
    return names[place_of(where, "--label", choice.label, names)]


def _is_list_column(values: Sequence[Any]) -> bool:
    """Return whether a column holds lists of strings or whole numbers (or nothing)."""
    filled = [value for value in values if value is not None]
    flat = (item for value in filled if isinstance(value, list) for item in value)
    lists = all(isinstance(value, list) for value in filled)
    return bool(filled) and lists and all(isinstance(item, str | int) for item in flat)


def _sentence(fields: Fields, number: int, word: str, label: str | None) -> Sentence:
    words = _strings(fields, number, word)
    if words is None:
        raise DataError(f"{fields.place(number)}: no words in column {word!r}.")
    labels = None if label is None else _strings(fields, number, label, numbers=True)
    lines = (fields.lines[number],) * max(len(words), 1)
    identity = fields.values["id"][number] if "id" in fields.values else None
    name = str(identity) if isinstance(identity, str | int) else None
    return Sentence(words, {} if labels is None else {str(label): labels}, lines, name)


def _strings(
    fields: Fields, number: int, name: str, numbers: bool = False
) -> tuple[str, ...] | None:
    """Return one cell as strings; ``numbers`` allows whole numbers, which become their digits."""
    value = fields.values[name][number]
    if value is None:
        return None
    allowed: tuple[type, ...] = (str, int) if numbers else (str,)
    fits = isinstance(value, list) and all(
        isinstance(item, allowed) and not isinstance(item, bool) for item in value
    )
    if not fits:
        expected = "a list of strings or whole numbers" if numbers else "a list of strings"
        raise DataError(f"{fields.place(number)}: expected {expected} in column {name!r}.")
    return tuple(map(str, value))
