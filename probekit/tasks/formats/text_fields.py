"""The columns of the user's files with one example per row or record, and the reader of each."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from probekit.base.notices import warn_once
from probekit.errors import DataError
from probekit.tasks.corpora.published import origin_of
from probekit.tasks.formats.arrow_fields import load_parquet, load_saved
from probekit.tasks.formats.cells import Row, check_widths, is_filled, read_cells
from probekit.tasks.formats.extensions import RUNNING, SAVED, format_of
from probekit.tasks.formats.fields import Fields
from probekit.tasks.formats.headers import column_of, header_names, is_header
from probekit.tasks.formats.json_fields import load_json, load_jsonl
from probekit.tasks.numeric_labels import is_number
from probekit.tasks.own.column_choice import Choice
from probekit.tasks.own.text_columns import USUAL

logger = logging.getLogger(__name__)

TABLES = (".csv", ".tsv", RUNNING)
RECORDS: Mapping[str, Callable[[Path, Choice], Fields]] = {
    ".jsonl": load_jsonl,
    ".parquet": lambda path, _: load_parquet(path),
    ".json": load_json,
    SAVED: lambda path, _: load_saved(path),
}


def load_fields(path: Path, choice: Choice) -> Fields:
    """Return the columns of a table or of a file of records.

    Raises:
        MissingFileError: there is no such file.
        DataError: it does not hold what its format promises.
    """
    return RECORDS.get(format_of(path), load_table)(path, choice)


def load_table(path: Path, choice: Choice) -> Fields:
    """Read a table with one example per row; empty rows are left out.

    The first row is a header if ``--text`` or ``--label`` names one of its cells, or if one of
    its cells is a usual name ("sentence", "label"); else columns are named by their position,
    and a message says so where the first row could be a header none the less.

    Raises:
        DataError: rows of different widths, a column named twice, broken quoting, or a first row
            that looks like a header but has no name that says so.
    """
    rows = [row for row in read_cells(path, choice, long=True) if is_filled(row)]
    where, origin = str(path), origin_of(path)
    if not rows:
        return Fields(where=where, origin=origin, unit="line", lines=(), values={})
    check_widths(path, rows)
    if is_header(rows, choice, USUAL):
        names, body = header_names(path, rows), rows[1:]
    else:
        _check_headless(path, rows)
        _note_headless(path, rows)
        names, body = [str(place) for place in range(len(rows[0][1]))], rows
    values = {name: _values(name, place, body) for place, name in enumerate(names)}
    lines = [number for number, _ in body]
    return Fields(where=where, origin=origin, unit="line", lines=lines, values=values)


def _values(name: str, place: int, body: Sequence[Row]) -> Sequence[str | None]:
    """Return a column; one that is empty and has no name, as spreadsheets add it, has no values."""
    cells = column_of(body, place)
    return cells if name != str(place) or any(map(str.strip, cells)) else [None] * len(cells)


def _note_headless(path: Path, rows: Sequence[Row]) -> None:
    """Say that the first row is an example, where it could be a header none the less."""
    first = rows[0][1]
    if len(rows) > 1 and not any(" " in cell.strip() for cell in first):
        warn_once(
            logger,
            "%s: the first row (%s) is read as an example; if it is a header, name a column of "
            "it with --text or --label.",
            path,
            ", ".join(first),
        )


def _check_headless(path: Path, rows: Sequence[Row]) -> None:
    """Refuse a header that is not known for one: its names would become an example."""
    for place, cell in enumerate(rows[0][1]):
        below = [cells[place] for _, cells in rows[1:]]
        if cell.strip() and not is_number(cell) and below and all(map(is_number, below)):
            raise DataError(
                f"{path}, line {rows[0][0]}: {cell!r} stands above a column of numbers. If it is "
                "a header, name its columns with --text and --label; if not, write a number."
            )
