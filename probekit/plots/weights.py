"""Heatmap of layer weights: heads and tasks by layers (attention-fusion paper, Fig. 2; P-32)."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from probekit.errors import RecordError
from probekit.plots.heatmap import BAR, CELL, LINE, Grid, draw_cells, label_layers, print_values
from probekit.plots.panels import label_text, new_figure, title_text
from probekit.plots.rows import rows, runs_text, shared_text
from probekit.plots.style import COLUMN_WIDTH, PAGE_WIDTH, RC
from probekit.results.interval import Interval
from probekit.results.record import Record
from probekit.results.weights import layer_weights, lost_weights, mean_weights, with_weights

MAX_ROWS = 60
_AROUND = 1.05  # height of title, axis and colour bar, inches


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
    given, records = records, _drawn(with_weights(records, raw), raw)
    means = {
        name: mean_weights(group, raw, " ".join(name.split()))
        for name, group in rows(records).items()
    }
    grid = _grid(means)
    with matplotlib.rc_context(RC):
        names = grid.names_width()
        width = min(PAGE_WIDTH, max(COLUMN_WIDTH, names + grid.n_columns * CELL))
        title = title_text(shared_text(records), width - names)
        runs = runs_text(records, lost_weights(given, records))
        label = label_text(f"{_label(records, raw)}, {runs}", width - names)
        height = grid.height() + LINE * f"{title}{label}".count("\n") + _AROUND
        figure = new_figure(width, height)
        axes, bar = figure.subplots(2, 1, gridspec_kw={"height_ratios": [grid.height(), BAR]})
        mesh = draw_cells(axes, grid, *((None, None) if raw else (0.0, _darkest(grid))))
        label_layers(axes, grid)
        axes.set_title(title, loc="left")
        figure.colorbar(mesh, cax=bar, orientation="horizontal", label=label)
        bar.spines[:].set_visible(False)
        print_values(axes, mesh, grid, figure, decimals=_decimals(grid) if raw else 2)
        return figure


def _drawn(records: Sequence[Record], raw: bool) -> Sequence[Record]:
    """Leave out the records of one layer, unless there are no others."""
    return [record for record in records if len(layer_weights(record, raw)) > 1] or records


def _grid(means: Mapping[str, Mapping[int, Interval]]) -> Grid:
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
    return Grid(list(means), values)


def _decimals(grid: Grid) -> list[int]:
    """Return decimals for the raw weights of each row: two digits of the largest, at most three.

    Their sizes have nothing to do with each other: dwatt's reach 50, those of p32 hardly 1.
    """
    largest = np.nanmax(np.abs(grid.values), axis=1)
    return [int(np.clip(1 - np.floor(np.log10(most or 1)), 0, 3)) for most in largest]


def _darkest(grid: Grid) -> float:
    """Return the largest weight, but at least twice an even share of the row with most layers."""
    most = np.count_nonzero(~np.isnan(grid.values), axis=1).max()
    return float(max(np.nanmax(grid.values), min(1.0, 2 / most)))


def _label(records: Sequence[Record], raw: bool) -> str:
    if raw:
        return "weight (before softmax)"
    note = "; concat: share of norm" if "concat" in {record.head for record in records} else ""
    return f"weight (after softmax{note})"
