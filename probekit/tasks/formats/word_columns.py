"""Files with one word per line in columns, and blank lines between sentences."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from probekit.errors import DataError
from probekit.tasks.formats.comments import drop_comments, is_remark
from probekit.tasks.formats.text_lines import read_lines

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
    divides sentences, and so does ``-DOCSTART-``, which is no word. Comments are left out, as
    ``comments`` says.

    Args:
        path: the file.
        lines: its lines, where they are read already.

    Raises:
        DataError: a row has more or fewer cells than the first one.
    """
    lines = read_lines(path) if lines is None else lines
    tabs = "\t" in min(filter(_is_row, lines), key=is_remark, default="")
    split = [_cells(line, tabs) if _is_row(line) else () for line in lines]
    rows: list[tuple[int, tuple[str, ...]]] = []
    blocks: list[Block] = []
    width = 0
    for number, cells in enumerate([*drop_comments(path, lines, split), ()], start=1):
        if cells:
            width = width or len(cells)
            if len(cells) != width:
                raise _uneven(path, number, width, cells, tabs)
            rows.append((number, tuple(cells)))
        elif rows:
            blocks.append(Block(tuple(row for _, row in rows), tuple(n for n, _ in rows)))
            rows = []
    return blocks


def width_of(blocks: Sequence[Block]) -> int:
    """Return the number of cells in each row (0 for no rows)."""
    return len(blocks[0].rows[0]) if blocks else 0


def _cells(line: str, tabs: bool) -> tuple[str, ...]:
    return tuple(line.split("\t") if tabs else _BLANKS.split(line.strip(" \t")))


def _is_row(line: str) -> bool:
    content = line.strip(" \t")
    return content != "" and _BLANKS.split(content, maxsplit=1)[0] != DOCUMENT_START


def _uneven(path: Path, number: int, width: int, cells: Sequence[str], tabs: bool) -> DataError:
    divider = "a TAB" if tabs else "blanks"
    hint = " (A comment stands before its sentence, as '# ...'.)" if cells[0][0] == "#" else ""
    return DataError(
        f"{path}, line {number}: expected {width} columns divided by {divider}, as in the lines "
        f"before, found {len(cells)}.{hint}"
    )
