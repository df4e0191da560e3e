"""Tables: the cells of ``.csv`` and ``.tsv`` files, and whether the first row names the columns.

What divides the columns is what the user says, else what the rows show. ``pandas`` and
``pyarrow.csv`` would read the cells too, but do not tell the line that a row begins in once a row
is blank or a cell goes on in the next line.
"""

import csv
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from probekit.base.notices import warn_once
from probekit.errors import DataError, OptionError
from probekit.tasks.column_choice import USUAL, WORDS, names_header
from probekit.tasks.formats.fields import Fields, Row, trim_names
from probekit.tasks.formats.file_parts import File, FilePart
from probekit.tasks.formats.text_lines import RUNNING, format_of, own_lines
from probekit.tasks.formats.word_columns import drop_comments
from probekit.tasks.schemes import is_number, trim
from probekit.tasks.task import Choice

logger = logging.getLogger(__name__)

_MARKS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
_BY_NAME = {**_MARKS, "\\t": "\t", "space": " "}
_INDEX = "index"
"""The name of a column of row numbers that has none, as pandas calls it too."""
_ROWS = 200
_LONGEST_CELL = 2**31 - 1
_DECLARED = re.compile(r'"?sep=(.)"?')
"""The first line by which Excel is told the separator."""


def load_table(path: File, choice: Choice) -> Fields:
    """Read a table with one example, or one word, per row.

    The first row is a header if an option names one of its cells, if one of its cells is a usual
    name ("sentence", "label"; in a table of words "token"), or if one is empty above a column of
    row numbers, as pandas writes it. Else columns are named by their position; a message says so
    where a first row of texts could be a header none the less. Empty rows divide sentences; in a
    table of words so do comments.

    Raises:
        DataError: rows of different widths, a column named twice, broken quoting, a first row of
            texts that looks like a header but has no name that says so, or a ``.txt`` file that is
            running text.
        OptionError: it is not clear what divides its columns.
    """
    of_words = choice.of_kind.per == "word"
    lines = own_lines(path)
    mark = _chosen_separator(choice)
    if format_of(path) == ".csv":
        rows = _csv_rows(path, lines, mark, long=not of_words)
    else:
        if format_of(path) == RUNNING and not of_words:
            _check_divided(path, lines, mark or "\t")
        rows = [(n, line.split(mark or "\t")) for n, line in enumerate(lines, start=1)]
    rows = [(n, cells if any(cell.strip(" \t") for cell in cells) else ()) for n, cells in rows]
    if of_words:
        rows = _without_comments(path, rows)
    first = next((row for row in rows if row[1]), (0, ()))
    usual = WORDS if of_words else USUAL
    headless = isinstance(path, FilePart) and path.headless
    headed = not headless and _is_header([row for row in rows if row[1]], choice, usual)
    if headed:  # no example; the first sentence begins behind it
        rows = [(number, () if number == first[0] else cells) for number, cells in rows]
        rows = _without_comments(path, rows) if of_words else rows
    body = [row for row in rows if row[1]]
    for number, cells in body:
        if len(cells) != len(first[1]):
            raise DataError(
                f"{path}, line {number}: expected {len(first[1])} cells, as in the first row, "
                f"found {len(cells)}."
            )
    if headed:
        names = _header_names(path, first, body)
    else:
        names = [str(number) for number in range(len(first[1]))]
        if body and not of_words and not headless:
            _check_headless(path, body)
    fields = Fields.of_rows(path, names, rows)
    if of_words:
        return fields
    # A column that is empty and has no name, as spreadsheets add it, has no values.
    nameless = {str(number) for number in range(len(names))}
    values = {
        name: cells if name not in nameless or any(map(str.strip, cells)) else [None] * len(cells)
        for name, cells in fields.values.items()
    }
    return replace(fields, values=values)


def _csv_rows(path: File, lines: Sequence[str], mark: str | None, long: bool) -> list[Row]:
    """Return the rows of a ``.csv`` file, each with the line it begins in.

    Cells may be quoted, and a blank before one belongs to none. (Those of other files are taken as
    they are, since a lone quotation mark is a common token.)

    Args:
        path: the file, for messages.
        lines: its lines.
        mark: what divides the columns; None where the lines tell.
        long: a quoted cell may go on in the next lines, as texts do.
    """
    declared = _DECLARED.fullmatch(lines[0]) if lines else None
    rows: list[Row] = []
    limit = csv.field_size_limit(_LONGEST_CELL)  # one for the whole process
    first = before = int(declared is not None)
    try:
        mark = mark or (declared[1] if declared else _recognised(path, lines))
        reader = _csv_reader(lines[before:], mark)
        for cells in reader:
            if before + reader.line_num > first + 1 and not long:
                raise csv.Error("a quoted cell goes on in the next line")
            rows.append((first + 1, cells))
            first = before + reader.line_num
    except csv.Error as error:
        what = "" if long else "that is a token "
        raise DataError(
            f"{path}, line {first + 1}: {error}; a quotation mark {what}is written "
            '"""" in CSV (or use a .tsv file, which has no quoting).'
        ) from error
    finally:
        csv.field_size_limit(limit)
    return rows


def _chosen_separator(choice: Choice) -> str | None:
    """Return the character that ``--separator`` stands for, None where it is not given.

    Raises:
        OptionError: it is no single character that could divide columns.
    """
    wanted = choice.separator
    if wanted is None:
        return None
    mark = _BY_NAME.get(wanted.lower(), wanted)
    if len(mark) != 1 or mark in '"\r\n' or mark.isalnum():
        raise OptionError(
            f"--separator {wanted}: expected one character that separates columns, or its name "
            f"({', '.join(_BY_NAME)})."
        )
    return mark


def _csv_reader(lines: Iterable[str], mark: str) -> Any:
    """Return the ``csv`` reader of lines; a blank behind a separator belongs to no cell."""
    numbered = (f"{line}\n" for line in lines)
    return csv.reader(numbered, delimiter=mark, strict=True, skipinitialspace=True)


def _recognised(path: File, lines: Sequence[str]) -> str:
    """Return what divides the columns of a ``.csv`` file.

    It is a comma, unless commas divide the rows into different numbers of cells and another mark
    into one number above 1; that is said.

    Raises:
        OptionError: commas and another mark would both do.
    """
    widths = {name: _width(lines, mark) for name, mark in _MARKS.items()}
    fitting = [name for name, width in widths.items() if width > 1]
    if len(fitting) > 1:
        listed = ", ".join(f"{name} ({widths[name]} columns)" for name in fitting)
        raise OptionError(
            f"{path}: what separates the columns? Every row could be read with {listed}. Choose "
            f"one with --separator, such as --separator {fitting[0]}."
        )
    name = fitting[0] if fitting else "comma"
    if name != "comma":
        warn_once(logger, f"{path}: its columns are separated by {name}s, not commas.")
    return _MARKS[name]


def _width(lines: Sequence[str], mark: str) -> int:
    """Return the number of cells in each of the first rows; 0 where they differ."""
    rows = islice(_csv_reader(lines, mark), _ROWS)
    try:
        widths = {len(cells) for cells in rows if any(map(str.strip, cells))}
    except csv.Error:
        return 0
    return widths.pop() if len(widths) == 1 else 0


def _check_divided(path: File, lines: Sequence[str], mark: str) -> None:
    """Refuse a ``.txt`` file of running text."""
    if not any(mark in line for line in lines):
        name = next((name for name, other in _BY_NAME.items() if other == mark), mark)
        raise DataError(
            f"{path}: unknown format {RUNNING!r}; expected columns separated by {name}s, but no "
            f"line has one (--separator names another). For {RUNNING} use --kind "
            "language-modelling if it is running text."
        )


def _without_comments(path: File, rows: Sequence[Row]) -> list[Row]:
    return drop_comments(path, rows, ["\t".join(cells) for _, cells in rows])


def _is_header(rows: Sequence[Row], choice: Choice, usual: Iterable[str]) -> bool:
    """Say whether a table's first row names its columns; ``usual`` names are in small letters."""
    if not rows:
        return False
    cells = [trim(cell) for cell in rows[0][1]]
    if names_header(choice, cells) or any(name.lower() in usual for name in cells):
        return True
    body = [row for row in rows[1:] if len(row[1]) == len(cells)]
    return any(_are_row_numbers(body, column) for column, name in enumerate(cells) if not name)


def _header_names(path: File, first: Row, body: Sequence[Row]) -> list[str]:
    """Return the names in a table's first row; a column without one gets a name.

    It is "index" for a column of row numbers (the first of them), else the column's position.

    Raises:
        DataError: two columns have one name.
    """
    names = trim_names(f"{path}, line {first[0]}", first[1])
    for column, name in enumerate(names):
        if not name:
            numbers = _INDEX not in names and _are_row_numbers(body, column)
            names[column] = _INDEX if numbers else str(column)
    return names


def _are_row_numbers(rows: Sequence[Row], column: int) -> bool:
    """Say whether the cells of a column are whole numbers, each another one."""
    cells = [row[1][column].strip() for row in rows]
    whole = all(cell.isascii() and cell.isdigit() for cell in cells)
    return bool(cells) and whole and len(set(cells)) == len(cells)


def _check_headless(path: File, rows: Sequence[Row]) -> None:
    """Say that the first row is an example; refuse one that would be a header's names.

    Raises:
        DataError: one of its cells is no number, and those below it are.
    """
    line, first = rows[0]
    for column, cell in enumerate(first):
        below = [cells[column] for _, cells in rows[1:]]
        if cell.strip() and not is_number(cell) and below and all(map(is_number, below)):
            raise DataError(
                f"{path}, line {line}: {cell!r} is above a column of numbers. If it is a header, "
                "name its columns with --text and --label; if not, write a number."
            )
    if len(rows) > 1 and not any(" " in cell.strip() for cell in first):
        warn_once(
            logger,
            f"{path}: the first row ({', '.join(first)}) is read as an example; if it is a header, "
            "name a column of it with --text or --label.",
        )
