"""Files with one word per line in columns, and blank lines between sentences."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from probekit.errors import DataError
from probekit.tasks.lines import read_lines

DOCUMENT_START = "-DOCSTART-"
_BLANKS = re.compile("[ \t]+")


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of one sentence.

    Attributes:
        rows: one tuple of cells per word, all of one length.
        lines: the line of each row, counted from 1.
    """

    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]

    def column(self, index: int) -> tuple[str, ...]:
        """Return one cell per word."""
        return tuple(row[index] for row in self.rows)


def read_blocks(path: Path, lines: Sequence[str] | None = None) -> list[Block]:
    """Return the sentences of a column file.

    Cells are divided by single TABs if the first row has one, else by runs of ASCII blanks; never
    by other white space, which occurs inside words (no-break spaces). A line of blanks alone
    divides sentences, and so does ``-DOCSTART-``, which is no word.

    Args:
        path: the file.
        lines: its lines, where they are read already.

    Raises:
        DataError: a row has more or fewer cells than the first one.
    """
    lines = read_lines(path) if lines is None else lines
    tabs = "\t" in next((line for line in lines if _is_row(line)), "")
    rows: list[tuple[int, tuple[str, ...]]] = []
    blocks: list[Block] = []
    width = 0
    for number, line in enumerate([*lines, ""], start=1):
        if _is_row(line):
            cells = tuple(line.split("\t") if tabs else _BLANKS.split(line.strip(" \t")))
            width = width or len(cells)
            if len(cells) != width:
                raise _uneven(path, number, width, len(cells), tabs)
            rows.append((number, cells))
        elif rows:
            blocks.append(Block(tuple(row for _, row in rows), tuple(n for n, _ in rows)))
            rows = []
    return blocks


def width_of(blocks: Sequence[Block]) -> int:
    """Return the number of cells in each row (0 for no rows)."""
    return len(blocks[0].rows[0]) if blocks else 0


def _is_row(line: str) -> bool:
    content = line.strip(" \t")
    return content != "" and _BLANKS.split(content, maxsplit=1)[0] != DOCUMENT_START


def _uneven(path: Path, number: int, width: int, found: int, tabs: bool) -> DataError:
    divider = "a TAB" if tabs else "blanks"
    return DataError(
        f"{path}, line {number}: expected {width} columns divided by {divider}, as in the lines "
        f"before, found {found}."
    )
