"""Figures of heatmaps: cells of equal size with their numbers, titles, and one colour bar below."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from probekit.base.layers import Value, by_point, is_joined
from probekit.plots.naming import line_length, wrap_phrases, wrap_words
from probekit.plots.style import (
    COLUMN_WIDTH,
    PAGE_WIDTH,
    PLAIN,
    Colours,
    Given,
    Look,
    fit,
    given_axes,
    lay_out,
    new_figure,
    note_mark,
    root_figure,
    size_of,
)

MAX_ROWS = 120
"""Rows of a figure, at most."""

MANY_ROWS = 14
"""Rows beyond which they are low and have no numbers."""

_CELL = 3.25  # preferred width of a cell; this and all heights below are in ems
_LINE = 1.2  # height of a line of a row's name
_AROUND, _COMPACT = 1.0, 0.3  # of a row beside its lines: with numbers in its cells, and without
_THIN = 60  # length of the colour bar, as a multiple of its height
_NAME = 5  # characters of a class's name that fit above its column
_GRID = "#e6e6e6"  # lines between the cells of a confusion, most of which are white
_FONT = 0.8  # size of a number in a cell, of that of titles
_DARK, _LIGHT = "#111111", "#fcfcfc"  # of numbers, by their cell and not by the theme of a page
_ABSENT: dict[str, Any] = {
    "facecolor": "white",
    "edgecolor": "#b5b5b5",
    "hatch": "//////",
    "linewidth": 0.0,
}


@dataclass(frozen=True)
class Grid:
    """One heatmap: a name per row, NaN where there is no value.

    Attributes:
        names: one per row.
        values: shape (rows, columns).
        halves: half width of each value's interval, in the same shape, NaN where it has none.
        classes: names of the columns, of a confusion; empty where these are layers 0, 1, 2, ...
        numbers: whether values are written, where they fit; rows without are lower.
    """

    names: Sequence[str]
    values: np.ndarray
    halves: np.ndarray | None = None
    classes: Sequence[str] = ()
    numbers: bool = True

    @property
    def width(self) -> float:
        """Preferred width of all cells, inches."""
        return float(self.values.shape[1] * _CELL * _em())

    @property
    def row_heights(self) -> list[float]:
        """Height of every row, inches."""
        around = _AROUND if self.numbers else _COMPACT
        return [_em() * (around + _LINE * (name.count("\n") + 1)) for name in self.names]

    @property
    def height(self) -> float:
        """Height of all rows, inches."""
        return sum(self.row_heights)

    @property
    def has_gaps(self) -> bool:
        """Whether a layer has no value."""
        return not self.classes and bool(np.isnan(self.values).any())


def _em() -> float:
    """Return the size of text in inches."""
    return float(rcParams["font.size"]) / 72


def rows_by_point(rows: Mapping[str, Mapping[int, Value]]) -> dict[str, dict[int, Value]]:
    """Return rows of values by layer; one over several points becomes a row for each."""
    found = {}
    for name, row in rows.items():
        for point, values in by_point(row).items():
            found[f"{name}, {point}" if is_joined(max(row)) else name] = values
    return found


def layer_values(rows: Collection[Mapping[int, float]], top: int) -> np.ndarray:
    """Return values by layer as an array (rows, layers from 0 on), NaN where a row has none.

    Args:
        rows: each by layer number.
        top: the last layer of the model.
    """
    values = np.full((len(rows), top + 1), np.nan)
    for index, row in enumerate(rows):
        values[index, list(row)] = list(row.values())
    return values


def draw_cells(axes: Axes, grid: Grid, colours: Colours, norm: Normalize) -> QuadMesh:
    """Draw the cells from the top down, with names of rows and columns; hatch layers not read."""
    edges = np.concatenate([[0.0], np.cumsum(grid.row_heights)])
    columns = np.arange(grid.values.shape[1] + 1) - 0.5
    for row, column in np.argwhere(np.isnan(grid.values)) if grid.has_gaps else ():
        corner = (columns[column], edges[row])
        axes.add_patch(Rectangle(corner, 1.0, edges[row + 1] - edges[row], **_ABSENT))
    mesh = axes.pcolormesh(
        columns,
        edges,
        np.ma.masked_invalid(grid.values),
        cmap=colours.map,
        norm=norm,
        edgecolors=_GRID if grid.classes else "white",
        linewidth=0.6,
    )
    axes.set_xlim(columns[0], columns[-1])
    axes.set_ylim(edges[-1], 0)
    axes.set_yticks((edges[1:] + edges[:-1]) / 2, grid.names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if grid.classes:
        rotation = 90 if max(map(len, grid.classes)) > _NAME else 0
        axes.set_xticks(range(len(grid.classes)), grid.classes, rotation=rotation)
        axes.set_xlabel("predicted")
        axes.set_ylabel("gold (rows of dev)")
    else:
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    _note_cells(axes, grid, edges, columns)
    return mesh


def _note_cells(axes: Axes, grid: Grid, edges: np.ndarray, columns: np.ndarray) -> None:
    """Note what every cell shows."""
    halves = np.full(grid.values.shape, np.nan) if grid.halves is None else grid.halves
    for row, column in np.argwhere(~np.isnan(grid.values)):
        half = float(halves[row, column])
        values: dict[str, str | float | None] = {
            "row": " ".join(grid.names[row].split()),
            "column": grid.classes[column] if grid.classes else int(column),
            "value": float(grid.values[row, column]),
            "±": None if np.isnan(half) else half,
        }
        corner = (columns[column + 1], edges[row + 1])
        note_mark(axes, columns[column], edges[row], values, corner)


def print_values(axes: Axes, grid: Grid, mesh: QuadMesh, decimals: int) -> None:
    """Write every value into its cell, if the longest fits, and half widths below if they fit too.

    The axes are laid out already.
    """
    if not grid.numbers:
        return
    font = _FONT * float(rcParams["font.size"])
    length = size_of(axes) * 72 / font / grid.values.shape[1] * 1.6  # characters in a cell
    height = size_of(axes, "height") / grid.height  # less than 1 in low axes of the caller's own
    texts = _texts(grid.values, f"{{:z.{decimals}f}}")
    if grid.halves is not None:
        halves = _texts(grid.halves, f"±{{:.{decimals}f}}")
        if max(map(len, halves.flat)) <= length and height > 0.9:
            texts = np.where(halves == "", texts, texts + "\n" + halves)
    widest = max(len(line) for text in texts.flat for line in text.split("\n"))
    if widest > length or height < 0.45:
        return
    centres = axes.get_yticks()
    for row, column in np.argwhere(~np.isnan(grid.values)):
        axes.text(
            column,
            centres[row],
            texts[row, column],
            color=_readable_on(list(mesh.cmap(mesh.norm(grid.values[row, column])))),
            fontsize=font,
            ha="center",
            va="center",
            linespacing=1.0,
        )


def _texts(values: np.ndarray, pattern: str) -> np.ndarray:
    """Return values as they are written, nothing for NaN; after ± without a zero in front."""

    def write(value: float) -> str:
        return "" if np.isnan(value) else pattern.format(value).replace("±0.", "±.")

    return np.asarray(np.vectorize(write, otypes=[object])(values))


def _readable_on(colour: Sequence[float]) -> str:
    """Return dark or light, whichever stands out (luma after Rec. 601)."""
    red, green, blue = colour[:3]
    return _LIGHT if 0.299 * red + 0.587 * green + 0.114 * blue < 0.52 else _DARK


def heatmap_figure(
    grids: Sequence[Grid],
    titles: Sequence[str],
    label: str,
    colours: Colours,
    *,
    notes: str = "",
    heading: str = "",
    columns: int = 1,
    decimals: int = 2,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Return a figure of heatmaps that share their colours.

    Cells have the size that they prefer, as long as the page is wide enough.

    Args:
        grids: the heatmaps, from the left to the right and then down.
        titles: one for each.
        label: of the colour bar.
        colours: of the values.
        notes: what else must be said, below the label.
        heading: a title over all of them.
        columns: heatmaps beside each other.
        decimals: of the numbers.
        ax: axes of the caller's own, one per heatmap; the colour bar takes some of their room.
        look: width and title.

    Raises:
        OptionError: the axes do not fit the heatmaps.
    """
    if look.title is not None and len(grids) == 1:
        titles, heading = [look.title], ""
    elif look.title:
        heading = look.title
    given = given_axes(ax, titles, look)
    panels = given or _new_axes(grids, columns, look)
    figure, norm = root_figure(panels[0]), colours.norm()
    meshes = [
        draw_cells(axes, grid, colours, norm) for axes, grid in zip(panels, grids, strict=True)
    ]
    bar = figure.colorbar(
        meshes[0], ax=panels, location="bottom", pad=0.02, aspect=_THIN, extend=colours.extend
    )
    _name_ticks(bar, colours)
    if not any(grid.classes for grid in grids):  # layers run along all of them
        gaps = "; hatched: not read" if any(grid.has_gaps for grid in grids) else ""
        panels[-1].set_xlabel(f"layer (0 = emb{gaps})")
    if not given and look.width is None:
        fit(figure, panels[:columns], columns * max(grid.width for grid in grids), "width")
        figure.set_figwidth(min(PAGE_WIDTH, max(COLUMN_WIDTH, figure.get_figwidth())))
    lay_out(figure)
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(wrap_phrases(title, line_length(size_of(axes))))
        axes.set_xlabel(wrap_words(axes.get_xlabel(), line_length(size_of(axes))))
    lines = (wrap_words(text, line_length(size_of(bar.ax))) for text in (label, notes) if text)
    bar.set_label("\n".join(lines))
    if not given:
        if heading:
            figure.suptitle(wrap_phrases(heading, line_length(figure.get_figwidth())))
        fit(figure, panels[::columns], sum(_stacked_heights(grids, columns)), "height")
    lay_out(figure)
    for axes, grid, mesh in zip(panels, grids, meshes, strict=True):
        print_values(axes, grid, mesh, decimals)
    return figure


def _stacked_heights(grids: Sequence[Grid], columns: int) -> list[float]:
    """Return the height of each row of heatmaps, of which some stand beside each other, inches."""
    heights = [grid.height for grid in grids]
    return [max(heights[n : n + columns]) for n in range(0, len(heights), columns)]


def _new_axes(grids: Sequence[Grid], columns: int, look: Look) -> list[Axes]:
    """Return the axes of a new figure."""
    heights = _stacked_heights(grids, columns)
    figure = new_figure(look.width or PAGE_WIDTH, sum(heights))
    places = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    return [figure.add_subplot(places[divmod(n, columns)]) for n in range(len(grids))]


def _name_ticks(bar: Colorbar, colours: Colours) -> None:
    bar.ax.spines[:].set_visible(False)
    if colours.ticks:
        bar.ax.set_xlim(*colours.ends)
        bar.ax.set_xticks(list(colours.ticks), list(colours.ticks.values()))
        bar.ax.minorticks_off()
