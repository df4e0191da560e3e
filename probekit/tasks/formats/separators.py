"""What divides the columns of the user's own table: what he says, else what the rows show."""

import csv
import logging
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from probekit.base.notices import warn_once
from probekit.errors import OptionError
from probekit.tasks.own.text_options import TextOptions

logger = logging.getLogger(__name__)

NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_ROWS = 200
_DECLARED = re.compile(r'"?sep=(.)"?')
"""The first line by which Excel is told the separator."""


def chosen_separator(options: TextOptions) -> str | None:
    """Return the character that ``--separator`` stands for, None where it is not given.

    Raises:
        OptionError: it is no single character that could divide columns.
    """
    wanted = options.separator
    if wanted is None:
        return None
    by_name = {name: mark for mark, name in NAMES.items()} | {"\\t": "\t", "space": " "}
    mark = by_name.get(wanted.lower(), wanted)
    if len(mark) != 1 or mark in '"\r\n' or mark.isalnum():
        raise OptionError(
            f"--separator {wanted}: expected one character that divides columns, or its name "
            f"({', '.join(by_name)})."
        )
    return mark


def csv_separator(path: Path, lines: Sequence[str], options: TextOptions) -> tuple[str, int]:
    """Return what divides the columns of a ``.csv`` file, and how many lines only declare it.

    Without ``--separator`` it is a comma, unless commas divide the rows into different numbers of
    cells and another mark into one number above 1; that is said.

    Raises:
        OptionError: commas and another mark would both do.
    """
    declared = _DECLARED.fullmatch(lines[0]) if lines else None
    mark = chosen_separator(options) or (declared[1] if declared else None)
    return mark or _recognised(path, lines), int(declared is not None)


def csv_rows(lines: Iterable[str], mark: str) -> Any:
    """Return the ``csv`` reader of lines; a blank behind a separator belongs to no cell."""
    numbered = (f"{line}\n" for line in lines)
    return csv.reader(numbered, delimiter=mark, strict=True, skipinitialspace=True)


def _recognised(path: Path, lines: Sequence[str]) -> str:
    widths = {mark: _width(lines, mark) for mark in NAMES}
    fitting = [mark for mark, width in widths.items() if width > 1]
    if len(fitting) > 1:
        listed = ", ".join(f"{NAMES[mark]} ({widths[mark]} columns)" for mark in fitting)
        raise OptionError(
            f"{path}: what divides the columns? Every row could be read with {listed}. Choose one "
            f"with --separator, such as --separator {NAMES[fitting[0]]}."
        )
    mark = fitting[0] if fitting else ","
    if mark != ",":
        warn_once(logger, "%s: its columns are divided by %ss, not commas.", path, NAMES[mark])
    return mark


def _width(lines: Sequence[str], mark: str) -> int:
    """Return the number of cells in each of the first rows; 0 where they differ."""
    rows = islice(csv_rows(lines, mark), _ROWS)
    try:
        widths = {len(cells) for cells in rows if any(map(str.strip, cells))}
    except csv.Error:
        return 0
    return widths.pop() if len(widths) == 1 else 0
