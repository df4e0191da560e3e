"""The columns of the user's ``.jsonl`` and ``.parquet`` files, one value per example."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from probekit.errors import DataError, MissingFileError
from probekit.tasks.blanks import trim_names
from probekit.tasks.lines import read_lines


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


def load_jsonl(path: Path) -> Fields:
    """Read a ``.jsonl`` file: one object per line.

    Raises:
        DataError: a line that is no JSON object.
    """
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip(" \t"):
            rows.append(_object(path, number, line))
            lines.append(number)
    names = dict.fromkeys(name for row in rows for name in row)
    values = [[row.get(name) for row in rows] for name in names]
    named = dict(zip(trim_names(str(path), names), values, strict=True))
    return Fields(path=path, unit="line", lines=lines, values=named)


def load_parquet(path: Path) -> Fields:
    """Read a ``.parquet`` file; numbers of a ``datasets`` ClassLabel become their names.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is no Parquet file.
    """
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
    named = dict(zip(trim_names(str(path), values), values.values(), strict=True))
    return Fields(path=path, unit="row", lines=range(1, table.num_rows + 1), values=named)


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
    """Return a label number, or a list of them, by name; -1 (all -1 in a list) as None."""
    if isinstance(row, list):
        return None if row and set(row) == {-1} else [_name(value, names) for value in row]
    return None if row == -1 else _name(row, names)


def _name(value: Any, names: Sequence[str]) -> Any:
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value
