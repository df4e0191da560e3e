"""Figures of heatmaps: cells of equal size with their numbers, titles, and one colour bar below."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from probekit.plots.naming import label_text, text_width, title_text
from probekit.plots.style import COLUMN_WIDTH, PAGE_WIDTH, RC, new_figure

COLOUR_MAP = "magma_r"
"""Perceptually uniform, and light to dark without a turn, so it survives a greyscale printer."""

_LINE = 0.13  # height of a line of a row's name, inches
_ROW = 0.11  # height of a row without its lines, inches
_BAR = 0.09  # height of the colour bar, inches
_FONT = 6.5
_SMALL = 5.0  # size of a half width
_ABOVE, _BELOW = 0.045, 0.065  # distances of a value and its half width from the middle, inches
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
        cell: preferred width of a cell, inches.
    """

    names: Sequence[str]
    values: np.ndarray
    halves: np.ndarray | None = None
    classes: Sequence[str] = ()
    cell: float = 0.36

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.values.shape[1])

    @property
    def width(self) -> float:
        """Preferred width of all cells, inches."""
        return self.n_columns * self.cell

    @property
    def row_heights(self) -> list[float]:
        """Height of every row, inches."""
        return [_ROW + _LINE * (name.count("\n") + 1) for name in self.names]


def layer_values(rows: Collection[Mapping[int, float]]) -> np.ndarray:
    """Return values by layer as an array (rows, layers from 0 on), NaN where a row has none."""
    top = max(layer for row in rows for layer in row)
    values = np.full((len(rows), top + 1), np.nan)
    for index, row in enumerate(rows):
        values[index, list(row)] = list(row.values())
    return values


@matplotlib.rc_context(RC)
def heatmap_figure(
    grids: Sequence[Grid],
    titles: Sequence[str],
    label: str,
    *,
    heading: str = "",
    columns: int = 1,
    low: float | None = None,
    high: float | None = None,
    decimals: int | Sequence[int] = 2,
    narrowest: float = COLUMN_WIDTH,
) -> Figure:
    """Return a figure of heatmaps that share their colours.

    Cells have the size that they prefer, as long as the page is wide enough: the figure is laid out
    once to see what names, titles and labels take beside them.

    Args:
        grids: the heatmaps, from the left to the right and then down.
        titles: one for each.
        label: of the colour bar.
        heading: a title over all of them.
        columns: heatmaps beside each other.
        low: value of the lightest colour; the smallest value when None.
        high: value of the darkest colour; the largest value when None.
        decimals: of the numbers, for all rows or for each row of a grid.
        narrowest: width of the figure at least, inches.
    """
    firsts = range(0, len(grids), columns)
    heights = [max(sum(grid.row_heights) for grid in grids[n : n + columns]) for n in firsts]
    figure = new_figure(PAGE_WIDTH, 2 * sum(heights) + PAGE_WIDTH)  # settled below
    places = figure.add_gridspec(len(heights) + 1, columns, height_ratios=[*heights, _BAR])
    panels = [figure.add_subplot(places[divmod(n, columns)]) for n in range(len(grids))]
    bar = figure.add_subplot(places[-1, :])
    meshes = [_draw_cells(axes, grid, low, high) for axes, grid in zip(panels, grids, strict=True)]
    figure.colorbar(meshes[0], cax=bar, orientation="horizontal", label=" ")
    bar.spines[:].set_visible(False)

    beside = figure.get_figwidth() - sum(_inside(figure, axes)[2] for axes in panels[:columns])
    wanted = columns * max(grid.width for grid in grids) + beside
    figure.set_figwidth(min(PAGE_WIDTH, max(narrowest, wanted)))
    room = figure.get_figwidth() / columns - _inside(figure, panels[0])[0]
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title_text(title, room), loc="left")
    bar.set_xlabel(label_text(label, _inside(figure, bar)[2]))
    if heading:
        text = title_text(heading, figure.get_figwidth())
        figure.suptitle(text, fontsize=RC["axes.titlesize"])
    stacked = [*panels[::columns], bar]
    around = figure.get_figheight() - sum(_inside(figure, axes)[3] for axes in stacked)
    figure.set_figheight(sum(heights) + _BAR + around)
    for axes, mesh, grid in zip(panels, meshes, grids, strict=True):
        _print_values(figure, axes, mesh, grid, decimals)
    return figure


def _inside(figure: Figure, axes: Axes) -> list[float]:
    """Return left, bottom, width and height of some axes as they are laid out now, inches."""
    figure.draw_without_rendering()
    return [length / figure.dpi for length in axes.get_window_extent().bounds]


def _draw_cells(axes: Axes, grid: Grid, low: float | None, high: float | None) -> QuadMesh:
    """Draw the cells from the top down, with a name per row and column; gaps are hatched."""
    edges = np.concatenate([[0.0], np.cumsum(grid.row_heights)])
    columns = np.arange(grid.n_columns + 1) - 0.5
    gaps = np.argwhere(np.isnan(grid.values))
    for row, column in gaps:
        corner = (columns[column], edges[row])
        axes.add_patch(Rectangle(corner, 1, edges[row + 1] - edges[row], **_ABSENT))
    mesh = axes.pcolormesh(
        columns,
        edges,
        np.ma.masked_invalid(grid.values),
        cmap=COLOUR_MAP,
        vmin=low,
        vmax=high,
        edgecolors="white",
        linewidth=0.6,
    )
    axes.set_xlim(columns[0], columns[-1])
    axes.set_ylim(edges[-1], 0)
    axes.set_yticks((edges[1:] + edges[:-1]) / 2, grid.names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if grid.classes:
        turned = max(text_width(name) for name in grid.classes) > grid.cell * 0.9
        axes.set_xticks(range(grid.n_columns), grid.classes, rotation=90 if turned else 0)
        axes.set_xlabel("predicted")
        axes.set_ylabel("gold (rows of dev)")
    else:  # layers: all of few, every second one of many
        axes.set_xticks(range(0, grid.n_columns, 1 if grid.n_columns <= 20 else 2))
        axes.set_xlabel(f"layer (0 = emb{'; hatched: not read' if len(gaps) else ''})")
    return mesh


def _print_values(
    figure: Figure, axes: Axes, mesh: QuadMesh, grid: Grid, decimals: int | Sequence[int]
) -> None:
    """Write every value into its cell, if the longest fits, with decimals of its row's own.

    Half widths stand below, smaller, where there are any and they fit as well.
    """
    cell = _inside(figure, axes)[2] / grid.n_columns
    places = np.broadcast_to(np.reshape(decimals, (-1, 1)), grid.values.shape)
    texts = _texts(grid.values, places, "{:z.{}f}")
    if cell < _width(texts, _FONT):
        return
    spreads = np.full(texts.shape, "", dtype=object)
    if grid.halves is not None:
        spreads = _texts(grid.halves, places, "±{:.{}f}")
    if cell < _width(spreads, _SMALL):
        spreads[:] = ""
    centres = axes.get_yticks()
    for row, column in np.argwhere(~np.isnan(grid.values)):
        options: dict[str, Any] = {
            "color": _readable_on(list(mesh.cmap(mesh.norm(grid.values[row, column])))),
            "ha": "center",
            "va": "center",
        }
        spread, centre = spreads[row, column], centres[row]
        above = _ABOVE if spread else 0.0
        axes.text(column, centre - above, texts[row, column], fontsize=_FONT, **options)
        if spread:
            axes.text(column, centre + _BELOW, spread, fontsize=_SMALL, **options)


def _texts(values: np.ndarray, places: np.ndarray, pattern: str) -> np.ndarray:
    """Return values with their decimals, nothing for NaN; after ± without a zero in front."""

    def write(value: float, decimals: int) -> str:
        return "" if np.isnan(value) else pattern.format(value, decimals).replace("±0.", "±.")

    return np.asarray(np.vectorize(write, otypes=[object])(values, places))


def _width(texts: np.ndarray, font: float) -> float:
    """Return the width that a cell needs for the longest of some texts, inches."""
    return max(text_width(text, font) for text in texts.ravel()) + 0.03


def _readable_on(colour: Sequence[float]) -> str:
    """Return black or white, whichever stands out (luma after Rec. 601)."""
    red, green, blue = colour[:3]
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.52 else "black"
