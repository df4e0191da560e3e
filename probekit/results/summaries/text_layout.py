"""Columns of text, laid out for a terminal or a page."""

from collections.abc import Sequence
from dataclasses import dataclass

from probekit.base.markup import spelled_out, spelled_out_lines
from probekit.results.summaries.interval import Interval

NOTHING = "-"

_LARGE = 1e6


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and its cells; words stand left, numbers right.

    Attributes:
        heading: the column's name.
        cells: one text per row; the spaces in front of a number are kept in a terminal.
        words: whether the cells are words.
        values: the numbers of the cells, in the same units; None of words, and of what is written
            as it stands.
    """

    heading: str
    cells: Sequence[str]
    words: bool = False
    values: Sequence[Interval | float | None] | None = None

    def __post_init__(self) -> None:
        """Spell out what a terminal would obey: names are those of strangers."""
        object.__setattr__(self, "heading", spelled_out_lines(self.heading))
        object.__setattr__(self, "cells", list(map(spelled_out_lines, self.cells)))

    def padded(self) -> list[str]:
        """Return the heading, a rule and the cells, all of one width."""
        heading, *cells = map(spelled_out, (self.heading, *self.cells))
        width = max(map(len, (heading, *cells)))
        rows = [heading, "-" * width, *cells]
        return [row.ljust(width) if self.words else row.rjust(width) for row in rows]


def text_table(columns: Sequence[Column]) -> str:
    """Return aligned columns, two spaces apart, with a rule under the headings."""
    lines = zip(*(column.padded() for column in columns), strict=True)
    return "".join("  ".join(line).rstrip() + "\n" for line in lines)


def markdown_table(columns: Sequence[Column]) -> str:
    """Return a Markdown table; bars inside a cell, and HTML, are escaped."""
    rules = [":---" if column.words else "---:" for column in columns]
    cells = zip(*(column.cells for column in columns), strict=True)
    lines = [[column.heading for column in columns], rules, *cells]
    return "".join(_markdown_line(line) for line in lines)


def _markdown_line(cells: Sequence[str]) -> str:
    texts = (markdown_text(spelled_out(cell.strip())).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(texts)} |\n"


def markdown_text(text: str) -> str:
    """Return a text in which Markdown finds no HTML."""
    return text.replace("<", "&lt;")


def interval_cells(values: Sequence[Interval | None], decimals: int | Sequence[int]) -> list[str]:
    """Return ``mean ± half width`` with the signs one below the other; a dash for None.

    Args:
        values: one per cell.
        decimals: of all cells, or of each.
    """
    digits = [decimals] * len(values) if isinstance(decimals, int) else decimals
    pairs = list(zip(values, digits, strict=True))
    halves = [_number(one.half, n) for one, n in pairs if one is not None and one.half is not None]
    width = max(map(len, halves), default=0)
    return [_interval_cell(value, n, width) for value, n in pairs]


def marked(cells: Sequence[str], marks: Sequence[str]) -> list[str]:
    """Return the cells, each with its mark right after it; a dash gets none."""
    width = max(map(len, marks), default=0)
    return [
        (cell.rstrip() + ("" if cell.strip() == NOTHING else mark)).ljust(len(cell) + width)
        for cell, mark in zip(cells, marks, strict=True)
    ]


def _interval_cell(value: Interval | None, decimals: int, width: int) -> str:
    room = width + 3 if width else 0
    if value is None:
        return NOTHING + " " * room
    mean = _number(value.mean, decimals)
    if value.half is None:
        return mean + " " * room
    return f"{mean} ± {_number(value.half, decimals):>{width}}"


def _number(value: float, decimals: int) -> str:
    """Return a number with some decimals; one of seven digits or more (a perplexity) as 6.2e+09."""
    return f"{value:.1e}" if abs(value) >= _LARGE else f"{value:z.{decimals}f}"
