"""The first row of the user's own table: whether it names the columns, and how."""

from collections.abc import Collection, Sequence
from pathlib import Path

from probekit.tasks.formats.blanks import trim, trim_names
from probekit.tasks.formats.cells import Row
from probekit.tasks.own.column_choice import Choice, names_header

INDEX = "index"
"""The name of a column of row numbers that has none, as pandas calls it too."""


def is_header(rows: Sequence[Row], choice: Choice, usual: Collection[str]) -> bool:
    """Say whether a table's first row names its columns.

    It does if ``--text``, ``--label`` or ``--sentences`` names one of its cells, if one of its
    cells is a usual name, or if one is empty above a column of row numbers, as pandas writes it.

    Args:
        rows: the rows that hold more than blanks, at least one.
        choice: what the user typed.
        usual: names in small letters.
    """
    cells = [trim(cell) for cell in rows[0][1]]
    known = names_header(choice, cells) or any(name.lower() in usual for name in cells)
    return known or any(
        not name and _are_row_numbers(column_of(rows[1:], place))
        for place, name in enumerate(cells)
    )


def header_names(path: Path, rows: Sequence[Row]) -> list[str]:
    """Return the names in a table's first row; a column without one gets a name.

    It is "index" for a column of row numbers (the first of them), else the column's position.

    Raises:
        DataError: two columns have one name.
    """
    names = trim_names(f"{path}, line {rows[0][0]}", rows[0][1])
    for place, name in enumerate(names):
        if not name:
            numbers = INDEX not in names and _are_row_numbers(column_of(rows[1:], place))
            names[place] = INDEX if numbers else str(place)
    return names


def column_of(rows: Sequence[Row], place: int) -> list[str]:
    """Return the cells of one column."""
    return [cells[place] for _, cells in rows]


def _are_row_numbers(cells: Sequence[str]) -> bool:
    """Say whether cells are whole numbers, each another one."""
    whole = all(cell.strip().isascii() and cell.strip().isdigit() for cell in cells)
    return bool(cells) and whole and len(set(cells)) == len(cells)
