"""Cells of a heatmap: colours, gaps, and numbers where they fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

COLOUR_MAP = "magma_r"
"""Perceptually uniform, and light to dark without a turn, so it survives a greyscale printer."""

CHARACTER = 0.062
"""Mean width of a 7 pt character, inches."""

CELL = 0.36
"""Preferred width of a cell, inches."""

LINE = 0.13
"""Height of a line of a row's name, inches."""

BAR = 0.09
"""Height of the colour bar, inches."""

_ROW = 0.11  # height of a row without its lines, inches
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
    """A heatmap's values: a name per row, columns 0, 1, 2, ..., NaN where there is no value.

    Attributes:
        names: one per row.
        values: shape (rows, columns).
        halves: half width of each value's interval, in the same shape, NaN where it has none.
    """

    names: Sequence[str]
    values: np.ndarray
    halves: np.ndarray | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.values.shape[1])

    @property
    def has_gaps(self) -> bool:
        """Whether a value is missing."""
        return bool(np.isnan(self.values).any())

    def names_width(self) -> float:
        """Return the width of the longest line of a name, in inches, with its distance."""
        lines = [line for name in self.names for line in name.split("\n")]
        return max(map(len, lines)) * CHARACTER + 0.3

    def row_heights(self) -> list[float]:
        """Return the height of every row, in inches."""
        return [_ROW + LINE * (name.count("\n") + 1) for name in self.names]

    def height(self) -> float:
        """Return the height of all rows, in inches."""
        return sum(self.row_heights())


def draw_cells(
    axes: Axes, grid: Grid, low: float | None = None, high: float | None = None
) -> QuadMesh:
    """Draw the cells from the top down, with a name per row; gaps are hatched.

    Args:
        axes: where.
        grid: the values.
        low: value of the lightest colour; the smallest value when None.
        high: value of the darkest colour; the largest value when None.
    """
    edges = np.concatenate([[0.0], np.cumsum(grid.row_heights())])
    columns = np.arange(grid.n_columns + 1) - 0.5
    for row, column in np.argwhere(np.isnan(grid.values)):
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
    return mesh


def label_layers(axes: Axes, grid: Grid) -> None:
    """Write layer numbers under the columns: all of few, every second one of many."""
    axes.set_xticks(range(0, grid.n_columns, 1 if grid.n_columns <= 20 else 2))
    axes.set_xlabel(f"layer (0 = emb{'; hatched: not read' if grid.has_gaps else ''})")


def print_values(
    axes: Axes, mesh: QuadMesh, grid: Grid, figure: Figure, decimals: int | Sequence[int]
) -> None:
    """Write every value into its cell, if the longest fits, with decimals of its row's own.

    Half widths stand below, smaller, where there are any and they fit as well.
    """
    figure.draw_without_rendering()  # settles the layout, hence the width of a cell
    cell = axes.get_window_extent().width / figure.dpi / grid.n_columns
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
    return max(map(len, texts.ravel())) * font * 0.6 / 72 + 0.03


def _readable_on(colour: Sequence[float]) -> str:
    """Return black or white, whichever stands out (luma after Rec. 601)."""
    red, green, blue = colour[:3]
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.52 else "black"
