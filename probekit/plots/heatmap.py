"""Figures of heatmaps: cells of equal size with their numbers, titles, and one colour bar below."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from probekit.plots.naming import line_length, text_length, wrap_phrases, wrap_words
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
    size_of,
)

_BAR = 0.09  # height of the colour bar, inches
_SAME = 0.98  # of a neighbour's height, from which on two are the same
_TALL = 9.0  # height of heatmaps from which on the bar stands above them, where reading begins
_LINE = 1.2  # height of a line of a row's name, ems; of all heights below the unit
_AROUND, _COMPACT = 1.0, 0.3  # of a row beside its lines: with numbers in its cells, and without
_STRIP = 0.5  # of a strip at least
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
        cell: preferred width of a cell, ems.
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
    cell: float = 3.25
    strips: Sequence[np.ndarray] = ()
    shades: np.ndarray | None = None
    numbers: bool = True
    blank: str | None = None

    @property
    def width(self) -> float:
        """Preferred width of all cells, inches."""
        return float(self.values.shape[1] * self.cell * _em())

    @property
    def row_heights(self) -> list[float]:
        """Height of every row, inches."""
        around = _AROUND if self.numbers else _COMPACT
        heights = [around + _LINE * (name.count("\n") + 1) for name in self.names]
        if self.strips:
            least = [around + _STRIP * len(strip) for strip in self.strips]
            heights = [max(pair) for pair in zip(heights, least, strict=True)]
        return [height * _em() for height in heights]

    @property
    def height(self) -> float:
        """Height of all rows, inches."""
        return sum(self.row_heights)

    @property
    def has_gaps(self) -> bool:
        """Whether a layer has no value."""
        return not self.classes and bool(np.isnan(self.values).any())

    @property
    def coloured(self) -> np.ndarray:
        """What the colours show, shape (rows or strips, columns)."""
        if self.shades is not None:
            return self.shades
        return np.concatenate(self.strips) if self.strips else self.values

    def edges(self, *, fine: bool = False) -> np.ndarray:
        """Return where rows begin and end, from the top, inches; or ``fine``, their strips."""
        edges = np.concatenate([[0.0], np.cumsum(self.row_heights)])
        if not fine or not self.strips:
            return edges
        # rows of 2 and 3 seeds that begin at 0, 2 and end at 5: 0, 1, 2, 3, 4, 5
        starts = zip(edges, edges[1:], self.strips, strict=False)
        inner = [np.linspace(low, high, len(strip) + 1)[:-1] for low, high, strip in starts]
        return np.concatenate([*inner, edges[-1:]])


def _em() -> float:
    """Return the size of text in inches."""
    return float(rcParams["font.size"]) / 72


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
    edges, columns = grid.edges(), np.arange(grid.values.shape[1] + 1) - 0.5
    for row, first, last in _runs(np.isnan(grid.values)):
        size = (last + 1 - first, edges[row + 1] - edges[row])
        axes.add_patch(Rectangle((columns[first], edges[row]), *size, **_ABSENT))
    mesh = axes.pcolormesh(
        columns,
        grid.edges(fine=True),
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
        narrow = max(map(text_length, grid.classes)) > line_length(
            grid.cell * _em(), "xtick.labelsize"
        )
        axes.set_xticks(range(len(grid.classes)), grid.classes, rotation=90 if narrow else 0)
        axes.set_xlabel("predicted")
        axes.set_ylabel("gold (rows of dev)")
    else:
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
        axes.set_xlabel(layer_label(grid.has_gaps))
    _note_cells(axes, grid, edges, columns)
    return mesh


def layer_label(gaps: bool) -> str:
    """Return the label of an axis of layers, and what gaps mean where there are any."""
    return f"layer (0 = emb{'; hatched: not read' if gaps else ''})"


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


def _runs(gaps: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield the row, first and last column of every run of gaps."""
    # a row of gaps at 0, 1 and 4: (row, 0, 1), (row, 4, 4)
    for row, flags in enumerate(gaps):
        padded = np.concatenate([[False], flags, [False]]).astype(int)
        changes = np.diff(padded)
        firsts, ends = np.flatnonzero(changes > 0), np.flatnonzero(changes < 0)
        yield from ((row, int(a), int(b) - 1) for a, b in zip(firsts, ends, strict=True))


def print_values(axes: Axes, grid: Grid, mesh: QuadMesh, decimals: int | Sequence[int]) -> None:
    """Write every value into its cell, if the longest fits, with decimals of its row's own.

    The axes are laid out already. Half widths stand below, where there are any and they fit too.
    """
    if not grid.numbers or grid.strips:
        return
    font = _FONT * float(rcParams["font.size"])
    length = size_of(axes) * 72 / font / grid.values.shape[1] * 1.6  # characters in a cell
    height = size_of(axes, "height") / grid.height  # less than 1 in low axes of the caller's own
    places = np.broadcast_to(np.reshape(decimals, (-1, 1)), grid.values.shape)
    texts = _texts(grid.values, places, "{:z.{}f}")
    if grid.halves is not None:
        halves = _texts(grid.halves, places, "±{:.{}f}")
        if max(map(len, halves.flat)) <= length and height > 0.9:
            texts = np.where(halves == "", texts, texts + "\n" + halves)
    widest = max(len(line) for text in texts.flat for line in text.split("\n"))
    if widest > length or height < 0.45:
        return
    centres = axes.get_yticks()
    for row, column in np.argwhere(~np.isnan(grid.values)):
        if texts[row, column] == grid.blank:
            continue
        axes.text(
            column,
            centres[row],
            texts[row, column],
            color=_readable_on(list(mesh.cmap(mesh.norm(grid.coloured[row, column])))),
            fontsize=font,
            ha="center",
            va="center_baseline" if "\n" not in texts[row, column] else "center",
            linespacing=1.0,
        )


def _texts(values: np.ndarray, places: np.ndarray, pattern: str) -> np.ndarray:
    """Return values with their decimals, nothing for NaN; after ± without a zero in front."""

    def write(value: float, decimals: int) -> str:
        return "" if np.isnan(value) else pattern.format(value, decimals).replace("±0.", "±.")

    return np.asarray(np.vectorize(write, otypes=[object])(values, places))


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
    decimals: int | Sequence[int] = 2,
    narrowest: float = COLUMN_WIDTH,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Return a figure of heatmaps that share their colours.

    Cells have the size that they prefer, as long as the page is wide enough. A heatmap whose rows
    are those of its neighbour does without their names.

    Args:
        grids: the heatmaps, from the left to the right and then down.
        titles: one for each.
        label: of the colour bar.
        colours: of the values.
        notes: what else must be said, in small letters below.
        heading: a title over all of them.
        columns: heatmaps beside each other.
        decimals: of the numbers, for all rows or for each row of a grid.
        narrowest: width of the figure at least, inches.
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
    if given:
        figure, meshes = _fill_axes(given, grids, label, notes, colours)
        panels = list(given)
    else:
        figure, panels, bar = _new_axes(grids, columns, look)
        meshes = _draw(panels, grids, colours)
        figure.colorbar(meshes[0], cax=bar, orientation="horizontal", extend=colours.extend)
        _name_ticks(bar, colours)
        bar.spines[:].set_visible(False)
        _share_labels(panels, grids, columns)
        if look.width is None:
            wanted = columns * max(grid.width for grid in grids)
            fit(figure, panels[:columns], wanted, "width")
            figure.set_figwidth(min(PAGE_WIDTH, max(narrowest, figure.get_figwidth())))
        gaps = columns > 1 and any(grid.has_gaps for grid in grids)
        said = "; ".join(filter(None, [notes, "hatched: not read" if gaps else ""]))
        lay_out(figure)
        _label(figure, bar, label, said, heading)
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(wrap_phrases(title, line_length(size_of(axes))))
        axes.set_xlabel(wrap_words(axes.get_xlabel(), line_length(size_of(axes))))
    if not given:
        _settle_height(figure, panels, bar, grids, columns)
    lay_out(figure)
    for axes, grid, mesh in zip(panels, grids, meshes, strict=True):
        print_values(axes, grid, mesh, decimals)
    return figure


def stacked_heights(grids: Sequence[Grid], columns: int) -> list[float]:
    """Return the height of each row of heatmaps, of which some stand beside each other, inches."""
    heights = [grid.height for grid in grids]
    return [max(heights[n : n + columns]) for n in range(0, len(heights), columns)]


def _draw(panels: Sequence[Axes], grids: Sequence[Grid], colours: Colours) -> list[QuadMesh]:
    norm = colours.norm()
    return [draw_cells(axes, grid, colours, norm) for axes, grid in zip(panels, grids, strict=True)]


def _fill_axes(
    panels: Sequence[Axes], grids: Sequence[Grid], label: str, notes: str, colours: Colours
) -> tuple[Figure, list[QuadMesh]]:
    """Draw heatmaps and their colour bar into axes of the caller's own."""
    figure = panels[0].get_figure(root=True)
    assert figure is not None
    meshes = _draw(panels, grids, colours)
    width = size_of(panels[0]) * len(panels)
    bar = figure.colorbar(
        meshes[0], ax=list(panels), orientation="horizontal", extend=colours.extend
    )
    _name_ticks(bar.ax, colours)
    bar.set_label(wrap_words(f"{label}; {notes}" if notes else label, line_length(width)))
    for (axes, left), (neighbour, right) in itertools.pairwise(zip(panels, grids, strict=True)):
        here, there = axes.get_window_extent(), neighbour.get_window_extent()
        beside = abs(here.y0 - there.y0) < 1 and here.x1 <= there.x0
        if beside and list(left.names) == list(right.names):
            neighbour.tick_params(axis="y", labelleft=False)
    return figure, meshes


def _new_axes(grids: Sequence[Grid], columns: int, look: Look) -> tuple[Figure, list[Axes], Axes]:
    """Return a figure, the axes of its heatmaps, and of the bar: below, or above tall ones."""
    tallest = stacked_heights(grids, columns)
    figure = new_figure(look.width or PAGE_WIDTH, sum(tallest))
    above = sum(tallest) > _TALL
    ratios = [_BAR, *tallest] if above else [*tallest, _BAR]
    places = figure.add_gridspec(len(ratios), columns, height_ratios=ratios)
    panels = [
        figure.add_subplot(places[n // columns + above, n % columns]) for n in range(len(grids))
    ]
    return figure, panels, figure.add_subplot(places[0 if above else -1, :])


def _share_labels(panels: Sequence[Axes], grids: Sequence[Grid], columns: int) -> None:
    """Leave out the names of rows and of the layer axis where a neighbour has them already."""
    for index, (axes, grid) in enumerate(zip(panels, grids, strict=True)):
        if index % columns and list(grid.names) == list(grids[index - 1].names):
            axes.tick_params(axis="y", labelleft=False)
            axes.set_ylabel("")
        if not grid.classes:
            last = index + columns >= len(grids)
            gaps = columns == 1 and any(grid.has_gaps for grid in grids)
            axes.set_xlabel(layer_label(gaps) if last else "")


def _label(figure: Figure, bar: Axes, label: str, notes: str, heading: str) -> None:
    """Say what the colours are, what else must be said, and what all heatmaps are of."""
    width = figure.get_figwidth()
    bar.set_xlabel(wrap_words(label, line_length(size_of(bar))))
    if notes:
        text = wrap_words(notes, line_length(width, "legend.fontsize"))
        figure.supxlabel(text, size=rcParams["legend.fontsize"])
    if heading:
        figure.suptitle(wrap_phrases(heading, line_length(width)))


def _settle_height(
    figure: Figure, panels: Sequence[Axes], bar: Axes, grids: Sequence[Grid], columns: int
) -> None:
    """Give rows their heights; a heatmap beside a taller one ends where its own rows do."""
    tallest = stacked_heights(grids, columns)
    fit(figure, [*panels[::columns], bar], sum(tallest) + _BAR, "height")
    lay_out(figure)
    for index, (axes, grid) in enumerate(zip(panels, grids, strict=True)):
        if grid.height < _SAME * tallest[index // columns]:
            axes.set_box_aspect(grid.height / size_of(axes))
            axes.set_anchor("NW")


def _name_ticks(bar: Axes, colours: Colours) -> None:
    if colours.ticks:
        bar.set_xlim(*colours.ends)
        bar.set_xticks(list(colours.ticks), list(colours.ticks.values()))
        bar.minorticks_off()
