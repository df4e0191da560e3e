"""Figures of heatmaps: cells of equal size with their numbers, titles, and one colour bar below."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import AsinhNorm, FuncNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from probekit.base.layers import Value, by_point, is_joined
from probekit.plots import naming, style

MAX_ROWS = 120
"""Rows of a figure, at most."""

MANY_ROWS = 14
"""Rows beyond which they are low and have no numbers."""

COLOUR_MAP = "magma_r"
"""Perceptually uniform, and light to dark without a turn, so it survives a greyscale printer."""

DIVERGING = "RdBu_r"
"""White in the middle; red and blue are told apart by all kinds of colour vision."""

_MOST = 16.0  # times an equal part, from which on all have the darkest red
_SHORT = 4  # times the linear part of a scale: up to there, all of it is linear

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
class Colours:
    """How values become colours.

    Attributes:
        map: name of matplotlib's colour map.
        norm: of all heatmaps of a figure.
        ticks: values that the colour bar names, with their texts; matplotlib's own if empty.
        ends: of the bar, where its ticks are named.
        extend: whether values may lie beyond the end of the bar.
        said: what the bar says of them beside what the values are.
    """

    map: str
    norm: Normalize
    ticks: Mapping[float, str] = field(default_factory=dict)
    ends: tuple[float, float] = (0.0, 1.0)
    extend: Literal["neither", "max"] = "neither"
    said: str = ""


def lift_colours(values: np.ndarray) -> Colours:
    """Return colours of multiples of an equal part: white is 1, red is more, blue is less.

    None is as far from 1 as the double; from there on colours go by powers, up to 16 times.

    Args:
        values: all that are drawn, NaN where there is none.
    """
    low, most = min(0.0, float(np.nanmin(values))), float(np.nanmax(values))
    high = float(np.clip(2 ** math.ceil(math.log2(max(most, 1.0)) - 1e-9), 2.0, _MOST))
    reach = max(high - 1, 1 - low)
    ticks = {0.0: "0", 0.5: "1/2"} | {2.0**n: f"{2**n}" for n in range(int(math.log2(high)) + 1)}
    extend: Literal["neither", "max"] = "max" if most > high else "neither"
    norm = FuncNorm((_above_one, _one_plus), 1 - reach, 1 + reach)
    return Colours(DIVERGING, norm, ticks, (low, high), extend)


def _above_one(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.arcsinh(values - 1.0))


def _one_plus(places: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 + np.sinh(places))


def signed_colours(values: np.ndarray, *, linear: float | None = None) -> Colours:
    """Return colours of what may be negative: white is 0, both sides reach equally far.

    Args:
        values: all that are drawn, NaN where there is none.
        linear: up to where colours are linear, and by powers from there, so that small values show
            beside large ones; all of them are if None, or if it reaches far enough.
    """
    reach = reach_of(values)
    if linear is None or reach <= _SHORT * linear:
        return Colours(DIVERGING, Normalize(-reach, reach))
    said = f"; colours: linear to \u00b1{linear:.2g}, then by powers"
    ticks = {value: f"{value:.2g}" for value in (-reach, -linear, 0.0, linear, reach)}
    norm = AsinhNorm(linear, -reach, reach)
    return Colours(DIVERGING, norm, ticks, (-reach, reach), said=said)


def reach_of(values: np.ndarray) -> float:
    """Return the largest size of any value; 1 if all are 0."""
    return float(np.nanmax(np.abs(values))) or 1.0


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


def draw_cells(axes: Axes, grid: Grid, colours: Colours) -> QuadMesh:
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
        norm=colours.norm,
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
        style.note_mark(axes, columns[column], edges[row], values, corner)


def print_values(axes: Axes, grid: Grid, mesh: QuadMesh, decimals: int) -> None:
    """Write every value into its cell, if the longest fits, and half widths below if they fit too.

    The axes are laid out already.
    """
    if not grid.numbers:
        return
    font = _FONT * float(rcParams["font.size"])
    length = style.size_of(axes) * 72 / font / grid.values.shape[1] * 1.6  # characters in a cell
    # less than 1 in low axes of the caller's own
    height = style.size_of(axes, "height") / grid.height
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
    ax: style.Given = None,
    look: style.Look = style.PLAIN,
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
    given = style.given_axes(ax, titles, look)
    heights = [
        max(grid.height for grid in grids[n : n + columns]) for n in range(0, len(grids), columns)
    ]
    panels = given or style.new_axes(len(grids), columns, look.width or style.PAGE_WIDTH, heights)
    figure = style.root_figure(panels[0])
    meshes = [draw_cells(axes, grid, colours) for axes, grid in zip(panels, grids, strict=True)]
    bar = figure.colorbar(
        meshes[0], ax=panels, location="bottom", pad=0.02, aspect=_THIN, extend=colours.extend
    )
    bar.ax.spines[:].set_visible(False)
    if colours.ticks:
        bar.ax.set_xlim(*colours.ends)
        bar.ax.set_xticks(list(colours.ticks), list(colours.ticks.values()))
        bar.ax.minorticks_off()
    if not any(grid.classes for grid in grids):  # layers run along all of them
        gaps = "; hatched: not read" if any(grid.has_gaps for grid in grids) else ""
        panels[-1].set_xlabel(f"layer (0 = emb{gaps})")
    if not given and look.width is None:
        style.fit(figure, panels[:columns], columns * max(grid.width for grid in grids), "width")
        figure.set_figwidth(min(style.PAGE_WIDTH, max(style.COLUMN_WIDTH, figure.get_figwidth())))
    naming.write_titles(panels, titles, look, made=not given, heading=heading)
    for axes in panels:
        axes.set_xlabel(naming.wrap(axes.get_xlabel(), naming.line_length(style.size_of(axes))))
    lines = (
        naming.wrap(text, naming.line_length(style.size_of(bar.ax)))
        for text in (label, notes)
        if text
    )
    bar.set_label("\n".join(lines))
    if not given:
        style.fit(figure, panels[::columns], sum(heights), "height")
    style.lay_out(figure)
    for axes, grid, mesh in zip(panels, grids, meshes, strict=True):
        print_values(axes, grid, mesh, decimals)
    return figure
