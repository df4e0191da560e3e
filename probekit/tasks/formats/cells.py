"""The cells of ``.csv`` and ``.tsv`` files, with the line that each row begins in."""

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from probekit.errors import DataError
from probekit.tasks.formats.encodings import own_lines
from probekit.tasks.formats.extensions import format_of
from probekit.tasks.formats.separators import chosen_separator, csv_rows, csv_separator
from probekit.tasks.own.text_options import TextOptions

Row = tuple[int, list[str]]

_LONGEST_CELL = 2**31 - 1


def read_cells(path: Path, options: TextOptions, *, long: bool = False) -> list[Row]:
    """Return the rows of a table.

    ``.csv`` cells may be quoted, and a blank before one belongs to none; ``.tsv`` and ``.txt``
    cells are taken as they are, since a lone quotation mark is a common token.

    Args:
        path: the file.
        options: its encoding and separator, where the user says them.
        long: a quoted cell of a ``.csv`` file may go on in the next lines, as texts do.

    Raises:
        DataError: the quoting of a ``.csv`` file is broken.
        OptionError: it is not clear what divides its columns.
    """
    lines = own_lines(path, options)
    if format_of(path) == ".csv":
        return _csv_rows(path, lines, options, long)
    mark = chosen_separator(options) or "\t"
    return [(number, line.split(mark)) for number, line in enumerate(lines, start=1)]


def is_filled(row: Row) -> bool:
    """Return whether any cell of a row holds more than blanks."""
    return any(cell.strip(" \t") for cell in row[1])


def check_widths(path: Path, rows: Sequence[Row]) -> None:
    """Refuse a row that has another number of cells than the first."""
    width = len(rows[0][1])
    for number, cells in rows:
        if len(cells) != width:
            raise DataError(
                f"{path}, line {number}: expected {width} cells, as in the first row, "
                f"found {len(cells)}."
            )


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let ``csv`` read cells of any length meanwhile; its limit is one for the whole process."""
    limit = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _csv_rows(path: Path, lines: Sequence[str], options: TextOptions, long: bool) -> list[Row]:
    with _long_cells():
        mark, skipped = csv_separator(path, lines, options)
        reader = csv_rows(lines[skipped:], mark)
        rows: list[Row] = []
        first = 1
        try:
            for cells in reader:
                if reader.line_num > first and not long:
                    raise csv.Error("a quoted cell goes on in the next line")
                rows.append((first + skipped, cells))
                first = reader.line_num + 1
        except csv.Error as error:
            what = "" if long else "that is a token "
            raise DataError(
                f"{path}, line {first + skipped}: {error}; a quotation mark {what}is written "
                '"""" in CSV (or use a .tsv file, which has no quoting).'
            ) from error
        return rows
