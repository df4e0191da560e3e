"""The columns of the user's ``.csv`` and ``.tsv`` files with one example per row."""

import logging
from collections.abc import Sequence
from pathlib import Path

from probekit.errors import DataError
from probekit.once import warn_once
from probekit.tasks.blanks import trim, trim_names
from probekit.tasks.cells import Row, check_widths, is_filled, read_cells
from probekit.tasks.fields import Fields
from probekit.tasks.options import Choice, names_header
from probekit.tasks.scores import is_number
from probekit.tasks.text_options import USUAL

logger = logging.getLogger(__name__)


def load_table(path: Path, choice: Choice) -> Fields:
    """Read a table with one example per row; empty rows are left out.

    The first row is a header if ``--text`` or ``--label`` names one of its cells, or if one of
    its cells is a usual name ("sentence", "label"); else columns are named by their position,
    and a message says so where the first row could be a header none the less.

    Raises:
        DataError: rows of different widths, a column named twice, broken quoting, or a first row
            that looks like a header but has no name that says so.
    """
    rows = [row for row in read_cells(path, long=True) if is_filled(row)]
    if not rows:
        return Fields(path=path, unit="line", lines=(), values={})
    check_widths(path, rows)
    header = rows[0][1]
    if _is_header(header, choice):
        names, body = trim_names(f"{path}, line {rows[0][0]}", header), rows[1:]
    else:
        _check_headless(path, rows)
        if len(rows) > 1 and not any(" " in cell.strip() for cell in header):
            warn_once(
                logger,
                "%s: the first row (%s) is read as an example; if it is a header, name a column of "
                "it with --text or --label.",
                path,
                ", ".join(header),
            )
        names, body = [str(place) for place in range(len(header))], rows
    values = {name: [cells[place] for _, cells in body] for place, name in enumerate(names)}
    return Fields(path=path, unit="line", lines=[number for number, _ in body], values=values)


def _is_header(cells: Sequence[str], choice: Choice) -> bool:
    names = [trim(cell) for cell in cells]
    return names_header(choice, names) or any(name.lower() in USUAL for name in names)


def _check_headless(path: Path, rows: Sequence[Row]) -> None:
    """Refuse a header that is not known for one: its names would become an example."""
    for place, cell in enumerate(rows[0][1]):
        below = [cells[place] for _, cells in rows[1:]]
        if cell.strip() and not is_number(cell) and below and all(map(is_number, below)):
            raise DataError(
                f"{path}, line {rows[0][0]}: {cell!r} stands above a column of numbers. If it is "
                "a header, name its columns with --text and --label; if not, write a number."
            )
