"""The cells of ``.csv`` and ``.tsv`` files, with the line that each row begins in."""

import csv
from collections.abc import Sequence
from pathlib import Path

from probekit.errors import DataError
from probekit.tasks.lines import read_lines

Row = tuple[int, list[str]]

_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def read_cells(path: Path, *, long: bool = False) -> list[Row]:
    """Return the rows of a table.

    ``.csv`` cells may be quoted, and a blank after a comma belongs to none; ``.tsv`` cells are
    taken as they are, since a lone quotation mark is a common token.

    Args:
        path: the file.
        long: a quoted cell of a ``.csv`` file may go on in the next lines, as texts do.

    Raises:
        DataError: a ``.csv`` file is divided by something else than commas, or its quoting is
            broken.
    """
    if path.suffix.lower() == ".csv":
        return _csv_rows(path, long)
    return [(number, line.split("\t")) for number, line in enumerate(read_lines(path), start=1)]


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


def _check_delimiter(path: Path, lines: Sequence[str]) -> None:
    """Refuse columns divided by another mark, as spreadsheets write them in many places.

    The first line tells: a mark between two cells, with no blank beside it, and no comma.
    """
    number, line = next(((n, line) for n, line in enumerate(lines, 1) if line.strip()), (1, ""))
    for mark, name in _DELIMITERS.items():
        parts = line.split(mark)
        cells = all(part.strip('"') and part == part.strip() for part in parts)
        if len(parts) > 1 and cells and "," not in line:
            raise DataError(
                f"{path}, line {number}: the columns are divided by {name}, not by commas; save "
                "the file with commas, or as .tsv with tabs."
            )


def _csv_rows(path: Path, long: bool) -> list[Row]:
    lines = read_lines(path)
    _check_delimiter(path, lines)
    reader = csv.reader((f"{line}\n" for line in lines), strict=True, skipinitialspace=True)
    rows: list[Row] = []
    first = 1
    try:
        for cells in reader:
            if reader.line_num > first and not long:
                raise csv.Error("a quoted cell goes on in the next line")
            rows.append((first, cells))
            first = reader.line_num + 1
    except csv.Error as error:
        what = "" if long else "that is a token "
        raise DataError(
            f"{path}, line {first}: {error}; a quotation mark {what}is written "
            '"""" in CSV (or use a .tsv file, which has no quoting).'
        ) from error
    return rows
