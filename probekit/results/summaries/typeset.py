"""A table in every style: for a terminal, a notebook, a paper or a spreadsheet, and as objects."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from probekit.base import markup
from probekit.base.registry import choose
from probekit.metrics import Scale
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.wording import layer_text
from probekit.tasks.schemes import is_number

if TYPE_CHECKING:
    import pandas

Style = Literal["text", "markdown", "html", "latex", "csv", "jsonl"]
STYLES: dict[str, Style] = {style: style for style in get_args(Style)}

NOTHING = "-"

_LARGE = 1e6

_FORMULA = ("=", "+", "-", "@")
"""What a formula begins with."""

_MARKDOWN = str.maketrans({"<": "&lt;", "*": r"\*", "~": r"\~"})
"""What Markdown would take for HTML, a list or a stroke."""

_LATEX = str.maketrans(
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
        object.__setattr__(self, "heading", markup.spelled_out_lines(self.heading))
        object.__setattr__(self, "cells", list(map(markup.spelled_out_lines, self.cells)))


@dataclass(frozen=True)
class Table:
    """Columns, and what stands below them.

    Attributes:
        columns: all of one length.
        notes: lines that say what is marked, what is wrong and how it was found.
        caption: what the numbers are.
        objects: what JSON lines hold: one object per row, or per cell.
        plain: columns for programs that read CSV, where they are others; None are `columns`.
    """

    columns: Sequence[Column]
    notes: Sequence[str] = ()
    caption: str = ""
    objects: Sequence[Mapping[str, Any]] = ()
    plain: Sequence[Column] | None = None

    def text(self, style: Style = "text") -> str:
        """Return the table in a style; nothing stands below those that programs read.

        Args:
            style: ``text`` (aligned for a terminal), ``markdown``, ``html`` (which a notebook
                shows), ``latex`` (booktabs), ``csv`` (plain numbers, in the same units), or
                ``jsonl`` (`objects`).

        Raises:
            UnknownNameError: there is no such style.
        """
        choose("table style", style, STYLES)
        if style == "jsonl":
            return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in self.objects)
        if style == "csv":
            # the last bits of a score times 100 are none that it has
            return str(self.to_pandas().to_csv(
                index=False, lineterminator="\r\n", float_format="%.12g"
            ))  # fmt: skip
        if style == "html":
            return markup.Markup(self._html(most=None) + "\n")
        notes, caption = self._notes(), markup.spelled_out_lines(self.caption)
        if style == "latex":
            return _latex(self.columns, notes, caption)
        below = [*notes, caption] if caption else notes
        if style == "markdown":
            below = [line.translate(_MARKDOWN) for line in below]
        table = markdown_table(self.columns) if style == "markdown" else text_table(self.columns)
        between = "\n\n" if style == "markdown" else "\n"
        return table + (f"\n{between.join(below)}\n" if below else "")

    def __str__(self) -> str:
        """Return the table for a terminal."""
        return self.text()

    def _repr_html_(self) -> str:
        """Return the table for a notebook, which shows no more rows than fit a page."""
        return self._html(markup.MOST_ROWS)

    def _notes(self) -> list[str]:
        return [markup.spelled_out_lines(note) for note in self.notes if note.strip()]

    def _html(self, most: int | None) -> markup.Markup:
        below = [*self._notes(), markup.spelled_out_lines(self.caption)]
        return markup.html_view(html_columns(self.columns, most), notes=below)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return plain numbers and words, half widths in columns of their own.

        A cell with nothing in it is missing, and words that a spreadsheet would compute begin with
        a quotation mark.
        """
        import pandas  # slow to import

        shown = self.columns if self.plain is None else self.plain
        columns = [pair for column in shown for pair in _plain(column)]
        frame = pandas.DataFrame({n: pandas.Series(cells) for n, (_, cells) in enumerate(columns)})
        frame.columns = pandas.Index([_no_formula(heading.strip()) for heading, _ in columns])
        return frame


def _plain(column: Column) -> Iterator[tuple[str, list[Any]]]:
    """Yield the columns that one becomes, each with its heading."""
    if column.values is None:
        texts = (cell.strip() for cell in column.cells)
        yield column.heading, [None if text == NOTHING else _no_formula(text) for text in texts]
        return
    pairs = [
        (value.mean, value.half) if isinstance(value, Interval) else (value, None)
        for value in column.values
    ]
    yield column.heading, [value for value, _ in pairs]
    if any(half is not None for _, half in pairs):
        yield f"{column.heading} half width", [half for _, half in pairs]


def _no_formula(text: str) -> str:
    """Return a text that no spreadsheet computes: a quotation mark stands before a formula."""
    return f"'{text}" if text[:1] in _FORMULA and not is_number(text) else text


def text_table(columns: Sequence[Column]) -> str:
    """Return aligned columns, two spaces apart, with a rule under the headings."""
    padded = []
    for column in columns:
        heading, *cells = map(markup.spelled_out, (column.heading, *column.cells))
        width = max(map(len, (heading, *cells)))
        align = str.ljust if column.words else str.rjust
        padded.append([align(text, width) for text in (heading, "-" * width, *cells)])
    return "".join("  ".join(line).rstrip() + "\n" for line in zip(*padded, strict=True))


def markdown_table(columns: Sequence[Column]) -> str:
    """Return a Markdown table; bars inside a cell, and HTML, are escaped."""
    rules = [":---" if column.words else "---:" for column in columns]
    lines = [
        [markup.spelled_out(cell.strip()).replace("<", "&lt;").replace("|", "\\|") for cell in line]
        for line in ([column.heading for column in columns], *_rows(columns))
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in (lines[0], rules, *lines[1:]))


def html_columns(columns: Sequence[Column], most: int | None = markup.MOST_ROWS) -> str:
    """Return the columns as a table of HTML, to stand in a view.

    Args:
        columns: as in any style.
        most: rows that are shown; None shows all.
    """
    rows = [[cell.strip() for cell in line] for line in _rows(columns)]
    headings, words = [column.heading for column in columns], [column.words for column in columns]
    return markup.html_table(headings, rows, words, most)


def html_layers(measures: Mapping[str, Mapping[int, float]]) -> str:
    """Return a row per layer of some numbers by layer, as HTML to stand in a view.

    Args:
        measures: by name; those that are empty have no column, and without any there is no table.
    """
    held = {name: values for name, values in measures.items() if values}
    layers = sorted({layer for values in held.values() for layer in values})
    if not layers:
        return ""
    columns = [Column("layer", [layer_text(layer) for layer in layers], words=True)]
    for name, values in held.items():
        cells = [f"{values[layer]:.3f}" if layer in values else "" for layer in layers]
        columns.append(Column(name, cells))
    return html_columns(columns)


def _rows(columns: Sequence[Column]) -> Iterator[tuple[str, ...]]:
    return zip(*(column.cells for column in columns), strict=True)


def latex_text(text: str) -> str:
    """Return text with everything escaped that LaTeX would obey."""
    return text.translate(_LATEX)


def _latex(columns: Sequence[Column], notes: Sequence[str], caption: str) -> str:
    """Return a ``tabular`` with the rules of booktabs; a ``table`` if something is said of it."""
    import pandas  # slow to import

    cells = {n: [_latex_cell(cell) for cell in column.cells] for n, column in enumerate(columns)}
    tabular = pandas.DataFrame(cells).to_latex(
        index=False,
        escape=False,
        header=[_latex_cell(column.heading) for column in columns],
        column_format=f"@{{}}{''.join('l' if column.words else 'r' for column in columns)}@{{}}",
    )
    if not notes and not caption:
        return tabular
    below = [rf"{{}}{latex_text(line)}\par" for line in notes]
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{latex_text(caption)}}}"] if caption else []),
        tabular.rstrip("\n"),
        *([r"\par\smallskip\footnotesize\raggedright", *below] if below else []),
        r"\end{table}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _latex_cell(cell: str) -> str:
    # a cell that begins with a bracket would be the argument of the line break before it
    text = latex_text(" ".join(cell.split()))
    return f"{{}}{text}" if text[:1] in ("[", "*") else text


@dataclass(frozen=True, slots=True)
class Cell:
    """A score as it is recorded, how it is printed, and what stands right after it."""

    score: Interval
    scale: Scale
    mark: str = ""


def score_column(heading: str, cells: Sequence[Cell | None]) -> Column:
    """Return scores as ``mean ± half width`` with the signs one below the other.

    Args:
        heading: of the column.
        cells: one per row; a dash stands for None.
    """
    values = [cell.score.scaled(cell.scale.factor) if cell else None for cell in cells]
    means, halves, marks = [], [], []
    for cell, value in zip(cells, values, strict=True):
        decimals = cell.scale.decimals if cell else 0
        means.append(_number(value.mean, decimals) if value else NOTHING)
        halves.append(_number(value.half, decimals) if value and value.half is not None else "")
        marks.append(cell.mark if cell else "")
    half_width, mark_width = (max(map(len, texts), default=0) for texts in (halves, marks))
    room = half_width + 3 if half_width else 0
    texts = []
    for mean, half, mark in zip(means, halves, marks, strict=True):
        text = f"{mean} ± {half:>{half_width}}" if half else mean
        full_width = len(mean) + room + mark_width
        texts.append(f"{text}{mark}".ljust(full_width))
    return Column(heading, texts, values=values)


def _number(value: float, decimals: int) -> str:
    """Return a number with some decimals; one of seven digits or more (a perplexity) as 6.2e+09."""
    return f"{value:.1e}" if abs(value) >= _LARGE else f"{value:z.{decimals}f}"
