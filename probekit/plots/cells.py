"""Cells of a heatmap: what is in them, how they are drawn, and the numbers written into them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from matplotlib.ticker import Locator

from probekit.plots.colours import Colours
from probekit.plots.naming import text_width
from probekit.plots.style import font_scale

_LINE = 0.13  # height of a line of a row's name, inches
_ROW = 0.11  # height of a row without its lines, inches
_COMPACT = 0.035  # the same of a row without numbers
_STRIP = 0.055  # least height of a strip, inches
_GRID = "#e6e6e6"  # lines between the cells of a confusion, most of which are white
_FONT = 6.5
_SMALL = 5.5  # size of a half width
_LOWEST = 0.9  # share of a row's own height that a value and its half width need
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
        strips: per row the values of every seed, shape (seeds, columns), which are drawn one below
            the other in place of the row's own; empty without.
        shades: what is coloured, in place of the values, which are written; in their shape, or that
            of all strips one below the other.
        numbers: whether values are written, where they fit; rows without are lower.
        blank: a number that is not written, as printed.
    """

    names: Sequence[str]
    values: np.ndarray
    halves: np.ndarray | None = None
    classes: Sequence[str] = ()
    cell: float = 0.36
    strips: Sequence[np.ndarray] = ()
    shades: np.ndarray | None = None
    numbers: bool = True
    blank: str | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.values.shape[1])

    @property
    def width(self) -> float:
        """Preferred width of all cells, inches."""
        return self.n_columns * self.cell * font_scale()

    @property
    def row_heights(self) -> list[float]:
        """Height of every row, inches."""
        around = _ROW if self.numbers else _COMPACT
        heights = [around + _LINE * (name.count("\n") + 1) for name in self.names]
        if self.strips:
            least = [around + _STRIP * len(strip) for strip in self.strips]
            heights = [max(pair) for pair in zip(heights, least, strict=True)]
        return [height * font_scale() for height in heights]

    @property
    def has_gaps(self) -> bool:
        """Whether a cell has no value."""
        return bool(np.isnan(self.values).any())

    @property
    def coloured(self) -> np.ndarray:
        """What the colours show, shape (rows or strips, columns)."""
        if self.shades is not None:
            return self.shades
        return np.concatenate(self.strips) if self.strips else self.values

    def edges(self) -> np.ndarray:
        """Return where rows begin and end, from the top, inches."""
        return np.concatenate([[0.0], np.cumsum(self.row_heights)])

    def fine_edges(self) -> np.ndarray:
        """Return the same of what is coloured: of strips, if there are any."""
        if not self.strips:
            return self.edges()
        # rows of 2 and 3 seeds that begin at 0, 2 and end at 5: 0, 1, 2, 3, 4, 5
        starts = zip(self.edges(), self.edges()[1:], self.strips, strict=False)
        inner = [np.linspace(low, high, len(one) + 1)[:-1] for low, high, one in starts]
        return np.concatenate([*inner, self.edges()[-1:]])


def layer_values(rows: Collection[Mapping[int, float]], top: int | None = None) -> np.ndarray:
    """Return values by layer as an array (rows, layers from 0 on), NaN where a row has none.

    Args:
        rows: each by layer number.
        top: the last layer of the model; the largest of all rows if None.
    """
    top = max(layer for row in rows for layer in row) if top is None else top
    values = np.full((len(rows), top + 1), np.nan)
    for index, row in enumerate(rows):
        values[index, list(row)] = list(row.values())
    return values


def draw_cells(axes: Axes, grid: Grid, colours: Colours, norm: Normalize) -> QuadMesh:
    """Draw the cells from the top down, with a name per row and column; gaps are hatched."""
    edges, columns = grid.edges(), np.arange(grid.n_columns + 1) - 0.5
    gaps = np.isnan(grid.values)
    for row, first, last in _runs(gaps):
        corner = (columns[first], edges[row])
        size = (last + 1 - first, edges[row + 1] - edges[row])
        axes.add_patch(Rectangle(corner, *size, **_ABSENT))
    mesh = axes.pcolormesh(
        columns,
        grid.fine_edges(),
        np.ma.masked_invalid(grid.coloured),
        cmap=colours.map,
        norm=norm,
        edgecolors=_GRID if grid.classes else "none" if grid.strips else "white",
        linewidth=0.6,
    )
    if grid.strips:
        axes.hlines(edges[1:-1], *columns[[0, -1]], color="white", linewidth=1.5)
    axes.set_xlim(columns[0], columns[-1])
    axes.set_ylim(edges[-1], 0)
    axes.set_yticks((edges[1:] + edges[:-1]) / 2, grid.names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if grid.classes:
        turned = max(text_width(name) for name in grid.classes) > grid.cell * 0.9 * font_scale()
        axes.set_xticks(range(grid.n_columns), grid.classes, rotation=90 if turned else 0)
        axes.set_xlabel("predicted")
        axes.set_ylabel("gold (rows of dev)")
    else:
        axes.xaxis.set_major_locator(_LayerLocator(axes, grid.n_columns - 1))
        axes.set_xlabel(layer_label(grid.has_gaps))
    return mesh


def layer_label(gaps: bool) -> str:
    """Return the label of an axis of layers, and what gaps mean where there are any."""
    return f"layer (0 = emb{'; hatched: not read' if gaps else ''})"


def _runs(gaps: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield the row, first and last column of every run of gaps."""
    # a row of gaps at 0, 1 and 4: (row, 0, 1), (row, 4, 4)
    for row, flags in enumerate(gaps):
        padded = np.concatenate([[False], flags, [False]]).astype(int)
        changes = np.diff(padded)
        firsts, ends = np.flatnonzero(changes > 0), np.flatnonzero(changes < 0)
        yield from ((row, int(a), int(b) - 1) for a, b in zip(firsts, ends, strict=True))


class _LayerLocator(Locator):
    """Ticks at layers, as many as there is room for: steps of 1, 2, 5 or 10."""

    def __init__(self, axes: Axes, top: int) -> None:
        self.axes, self.top = axes, top

    def __call__(self) -> Sequence[float]:
        """Return the ticks of the axis as it is laid out."""
        figure = self.axes.get_figure(root=True)
        assert figure is not None
        room = self.axes.get_window_extent().width / figure.dpi / (self.top + 1)
        needed = text_width(str(self.top)) + 0.07 * font_scale()
        step = next((n for n in (1, 2, 5, 10) if n * room >= needed), 20)
        return list(range(0, self.top + 1, step))

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """Return the ticks, whatever the limits."""
        return self()


def print_values(axes: Axes, grid: Grid, decimals: int | Sequence[int]) -> None:
    """Write every value into its cell, if the longest fits, with decimals of its row's own.

    The axes are laid out already. Half widths stand below, smaller, where there are any and they
    fit as well.
    """
    if not grid.numbers or grid.strips:
        return
    font, small = _FONT * font_scale(), _SMALL * font_scale()
    figure = axes.get_figure(root=True)
    assert figure is not None
    box = axes.get_window_extent()
    cell = box.width / figure.dpi / grid.n_columns
    stretch = box.height / figure.dpi / sum(grid.row_heights)  # in axes of the caller's own
    places = np.broadcast_to(np.reshape(decimals, (-1, 1)), grid.values.shape)
    texts = _texts(grid.values, places, "{:z.{}f}")
    if cell < _width(texts, font) or stretch < _LOWEST / 2:
        return
    spreads = np.full(texts.shape, "", dtype=object)
    if grid.halves is not None:
        spreads = _texts(grid.halves, places, "±{:.{}f}")
    if cell < _width(spreads, small) or stretch < _LOWEST:
        spreads[:] = ""
    (mesh,) = [one for one in axes.collections if isinstance(one, QuadMesh)]
    centres = axes.get_yticks()
    for row, column in np.argwhere(~np.isnan(grid.values)):
        if texts[row, column] == grid.blank:
            continue
        options: dict[str, Any] = {
            "color": _readable_on(list(mesh.cmap(mesh.norm(grid.coloured[row, column])))),
            "ha": "center",
            "va": "center",
        }
        spread, centre = spreads[row, column], centres[row]
        above = _ABOVE * font_scale() if spread else 0.0
        axes.text(column, centre - above, texts[row, column], fontsize=font, **options)
        if spread:
            below = centre + _BELOW * font_scale()
            axes.text(column, below, spread, fontsize=small, **options)


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
