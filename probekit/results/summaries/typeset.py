"""A table in every style: as text, for a notebook, a paper or a spreadsheet, and as objects."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from probekit.base.markup import MOST_ROWS, html_table, html_view
from probekit.base.registry import choose
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.text_layout import NOTHING, Column, markdown_table, text_table
from probekit.tasks.label_names import is_number

Style = Literal["text", "markdown", "html", "latex", "csv", "jsonl"]
STYLES: dict[str, Style] = {
    "text": "text",
    "markdown": "markdown",
    "html": "html",
    "latex": "latex",
    "csv": "csv",
    "jsonl": "jsonl",
}

BARE = ("csv", "jsonl")
"""Styles that programs read: nothing stands below the table."""

_ESCAPED = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "<": "$<$",
        ">": "$>$",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "\N{UPWARDS ARROW}": r"$\uparrow$",
        "\N{DOWNWARDS ARROW}": r"$\downarrow$",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)

_FORMULA = ("=", "+", "-", "@")
"""What a formula begins with."""

_DIGITS = 12  # significant ones in CSV: what a score times 100 has, without its last bits


def laid_out(columns: Sequence[Column], objects: Iterable[Mapping[str, Any]], style: Style) -> str:
    """Return a table of columns in a style, or its objects as JSON lines.

    Raises:
        UnknownNameError: there is no such style.
    """
    choose("table style", style, STYLES)
    if style == "jsonl":
        return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects)
    return _LAYOUTS[style](columns)


def latex_text(text: str) -> str:
    """Return text with everything escaped that LaTeX would obey."""
    return text.translate(_ESCAPED)


def latex_table(columns: Sequence[Column]) -> str:
    """Return a ``tabular`` with the rules of booktabs; words stand left, numbers right."""
    places = "".join("l" if column.words else "r" for column in columns)
    cells = zip(*(column.cells for column in columns), strict=True)
    lines = [
        rf"\begin{{tabular}}{{@{{}}{places}@{{}}}}",
        r"\toprule",
        _latex_line([column.heading for column in columns]),
        r"\midrule",
        *map(_latex_line, cells),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _latex_line(cells: Sequence[str]) -> str:
    # a cell that begins with a bracket would be the argument of the line break before it
    texts = [latex_text(" ".join(cell.split())) for cell in cells]
    guarded = [f"{{}}{text}" if text[:1] in ("[", "*") else text for text in texts]
    return " & ".join(guarded) + r" \\"


def latex_float(table: str, notes: str, caption: str) -> str:
    """Return a ``table`` that holds a ``tabular``, with what stands below it.

    Args:
        table: as ``latex_table`` returns it.
        notes: lines that say what is marked.
        caption: what the numbers are.
    """
    below = [rf"{{}}{latex_text(line)}\par" for line in notes.splitlines() if line]
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(caption)}}}",
            table.rstrip("\n"),
            *([r"\par\smallskip\footnotesize\raggedright", *below] if below else []),
            r"\end{table}",
            "",
        ]
    )


def html_columns(columns: Sequence[Column], most: int | None = MOST_ROWS) -> str:
    """Return the columns as a table of HTML, to stand in a view.

    Args:
        columns: as in any style.
        most: rows that are shown; None shows all.
    """
    rows = [
        [cell.strip() for cell in line] for line in zip(*(c.cells for c in columns), strict=True)
    ]
    headings = [column.heading for column in columns]
    return html_table(headings, rows, [column.words for column in columns], most)


def csv_table(columns: Sequence[Column]) -> str:
    """Return the columns as RFC 4180 has them: plain numbers, half widths in columns of their own.

    A cell with nothing in it is empty, as readers of CSV expect, and not a dash.
    """
    plain = [one for column in columns for one in _plain(column)]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow([_no_formula(heading.strip()) for heading, _ in plain])
    writer.writerows(zip(*(cells for _, cells in plain), strict=True))
    return buffer.getvalue()


def _plain(column: Column) -> Iterator[tuple[str, list[Any]]]:
    """Yield the columns that one becomes, each with its heading."""
    if column.values is None:
        texts = (cell.strip() for cell in column.cells)
        yield column.heading, ["" if text == NOTHING else _no_formula(text) for text in texts]
        return
    values = column.values
    means = [one.mean if isinstance(one, Interval) else one for one in values]
    yield column.heading, list(map(_number, means))
    halves = [one.half if isinstance(one, Interval) else None for one in values]
    if any(half is not None for half in halves):
        yield f"{column.heading} half width", list(map(_number, halves))


def _no_formula(text: str) -> str:
    """Return a text that no spreadsheet computes: a quotation mark stands before a formula."""
    return f"'{text}" if text[:1] in _FORMULA and not is_number(text) else text


def _number(value: Any) -> Any:
    """Return a number in plain digits, and nothing for one that is not there."""
    if value is None:
        return ""
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else value


_LAYOUTS: Mapping[str, Callable[[Sequence[Column]], str]] = {
    "text": text_table,
    "markdown": markdown_table,
    "html": lambda columns: html_view(html_columns(columns, most=None)),
    "latex": latex_table,
    "csv": csv_table,
}
