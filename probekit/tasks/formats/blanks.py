"""Blanks around a cell of any format: no part of a label, nor of a column's name."""

from collections.abc import Iterable

from probekit.errors import DataError

_UNSEEN = "\ufeff\u200b\u2060"
"""Characters that no editor shows and ``str.strip`` leaves: byte order mark, zero-width ones."""


def trim(cell: str) -> str:
    """Return a label or a name without what surrounds it unseen.

    That is white space of every kind (no-break spaces, line ends) and marks without width. Words
    and texts are never trimmed so: a no-break space may be one.
    """
    shorter = cell.strip().strip(_UNSEEN)
    return cell if shorter == cell else trim(shorter)


def trim_names(where: str, names: Iterable[str]) -> list[str]:
    """Return the names of columns without blanks around them.

    Args:
        where: the file, and the line where there is one, for the message.
        names: as the file gives them.

    Raises:
        DataError: two columns have one name.
    """
    found = [trim(name) for name in names]
    twice = next((name for name in found if name and found.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{where}: two columns are called {twice!r}; rename one.")
    return found
