"""Heatmap of layer weights: heads and tasks by layers (attention-fusion paper, Fig. 2; P-32)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from probekit.errors import RecordError
from probekit.plots.panels import new_figure, title_text
from probekit.plots.rows import rows, shared_text
from probekit.plots.style import COLUMN_WIDTH, PAGE_WIDTH, RC
from probekit.results.interval import Interval
from probekit.results.record import Record
from probekit.results.weights import layer_weights, mean_weights, with_weights

COLOUR_MAP = "magma_r"
"""Perceptually uniform, and light to dark without a turn, so it survives a greyscale printer."""

MAX_ROWS = 60
_CHARACTER = 0.062  # mean width of a 7 pt character, inches
_CELL = 0.36  # preferred width of a cell, inches
_LINE = 0.13  # height of a line of a row's name, inches
_ROW = 0.11  # height of a row without its lines, inches
_BAR = 0.09  # height of the colour bar, inches
_AROUND = 1.05  # height of title, axis and colour bar, inches
_ABSENT: dict[str, Any] = {
    "facecolor": "white",
    "edgecolor": "#b5b5b5",
    "hatch": "//////",
    "linewidth": 0.0,
}


@dataclass(frozen=True)
class _Grid:
    """The heatmap's values: a name per row, a layer per column, NaN where a head reads nothing."""

    names: list[str]
    layers: list[int]
    values: np.ndarray


def plot_weights(records: Sequence[Record], raw: bool = False) -> Figure:
    """Draw the mean weight over seeds that every head gave each layer, one row per head and task.

    A row's name says every option that it does not share with the others, the title what all
    share. A hatched cell is a layer that the head did not read, which is not the same as weight 0.
    Rows that read one layer only are left out, unless there are no others.

    Args:
        records: records; those of heads without weights are left out.
        raw: the weights before the softmax, for heads that have them.

    Raises:
        RecordError: no record has such weights, a row would average over more than seeds, or
            there are too many rows.
    """
    records = _drawn(with_weights(records, raw), raw)
    means = {
        name: mean_weights(group, raw, " ".join(name.split()))
        for name, group in rows(records).items()
    }
    grid = _grid(means)
    with matplotlib.rc_context(RC):
        width, names = _widths(grid)
        title = title_text(shared_text(records), width - names)
        height = sum(_row_heights(grid)) + _LINE * title.count("\n") + _AROUND
        figure = new_figure(width, height)
        heights = [sum(_row_heights(grid)), _BAR]
        axes, bar = figure.subplots(2, 1, gridspec_kw={"height_ratios": heights})
        mesh = _draw_cells(axes, grid, raw)
        axes.set_title(title, loc="left")
        figure.colorbar(mesh, cax=bar, orientation="horizontal", label=_label(records, raw))
        bar.spines[:].set_visible(False)
        _print_values(axes, mesh, grid, figure, decimals=1 if raw else 2)
        return figure


def _drawn(records: Sequence[Record], raw: bool) -> Sequence[Record]:
    """Leave out the records of one layer, unless there are no others."""
    return [record for record in records if len(layer_weights(record, raw)) > 1] or records


def _grid(means: Mapping[str, Mapping[int, Interval]]) -> _Grid:
    if len(means) > MAX_ROWS:
        raise RecordError(
            f"{len(means)} rows are too many for one heatmap (at most {MAX_ROWS}); choose some, "
            "such as --where shots=128."
        )
    top = max(layer for row in means.values() for layer in row)
    values = np.full((len(means), top + 1), np.nan)
    for index, row in enumerate(means.values()):
        for layer, weight in row.items():
            values[index, layer] = weight.mean
    return _Grid(list(means), list(range(top + 1)), values)


def _widths(grid: _Grid) -> tuple[float, float]:
    """Return the width of the figure, and of the names in it, in inches."""
    names = max(len(line) for name in grid.names for line in name.split("\n")) * _CHARACTER + 0.3
    return min(PAGE_WIDTH, max(COLUMN_WIDTH, names + len(grid.layers) * _CELL)), names


def _row_heights(grid: _Grid) -> list[float]:
    return [_ROW + _LINE * (name.count("\n") + 1) for name in grid.names]


def _draw_cells(axes: Axes, grid: _Grid, raw: bool) -> QuadMesh:
    edges = np.concatenate([[0.0], np.cumsum(_row_heights(grid))])
    columns = np.arange(len(grid.layers) + 1) - 0.5
    for row, column in np.argwhere(np.isnan(grid.values)):
        corner = (columns[column], edges[row])
        axes.add_patch(Rectangle(corner, 1, edges[row + 1] - edges[row], **_ABSENT))
    mesh = axes.pcolormesh(
        columns,
        edges,
        np.ma.masked_invalid(grid.values),
        cmap=COLOUR_MAP,
        vmin=None if raw else 0.0,
        edgecolors="white",
        linewidth=0.6,
    )
    axes.set_xlim(columns[0], columns[-1])
    axes.set_ylim(edges[-1], 0)
    axes.set_yticks((edges[1:] + edges[:-1]) / 2, grid.names)
    axes.set_xticks(grid.layers[:: 1 if len(grid.layers) <= 20 else 2])
    hatched = "; hatched: not read" if np.isnan(grid.values).any() else ""
    axes.set_xlabel(f"layer (0 = emb{hatched})")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return mesh


def _print_values(axes: Axes, mesh: QuadMesh, grid: _Grid, figure: Figure, decimals: int) -> None:
    """Write every value into its cell, if the longest fits."""
    figure.draw_without_rendering()  # settles the layout, hence the width of a cell
    cell = axes.get_window_extent().width / figure.dpi / len(grid.layers)
    centres = axes.get_yticks()
    size = 6.5
    texts = np.vectorize(lambda value: f"{value:z.{decimals}f}")(grid.values)
    longest = max(len(text) for text in texts[~np.isnan(grid.values)])
    if cell < longest * size * 0.6 / 72 + 0.03:
        return
    for row, column in np.argwhere(~np.isnan(grid.values)):
        colour = list(mesh.cmap(mesh.norm(grid.values[row, column])))
        axes.text(
            column,
            centres[row],
            texts[row, column],
            ha="center",
            va="center",
            fontsize=size,
            color=_readable_on(colour),
        )


def _readable_on(colour: Sequence[float]) -> str:
    """Return black or white, whichever stands out (luma after Rec. 601)."""
    red, green, blue = colour[:3]
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.52 else "black"


def _label(records: Sequence[Record], raw: bool) -> str:
    if raw:
        return "weight (before softmax)"
    heads = {record.head for record in records}
    shares = [head for head in ("concat", "concat-ffn") if head in heads]
    note = f"; {', '.join(shares)}: share of norm" if shares else ""
    return f"weight (after softmax{note})"
