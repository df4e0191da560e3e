"""Confusion matrices: what the rows of each gold class are taken for."""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from probekit.errors import RecordError
from probekit.plots.heatmap import BAR, CHARACTER, LINE, Grid, draw_cells, print_values
from probekit.plots.naming import rows, runs_text, shared_text
from probekit.plots.panels import label_text, new_figure, title_text
from probekit.plots.style import PAGE_WIDTH, RC
from probekit.results.record import Record
from probekit.results.summaries.by_class import most_frequent, total_confusion
from probekit.results.summaries.grouping import check_seeds

MAX_PANELS = 6
MAX_CLASSES = 30
_CELL = 0.31  # preferred width of a cell, inches
_BELOW = 0.55  # height of the colour bar with its label, inches
_NARROWEST = 2.4  # width of a figure, inches
_AXIS = 0.3  # height of an axis label with its distances, inches


@dataclass(frozen=True)
class _Panel:
    title: str
    columns: list[str]
    grid: Grid

    @property
    def width(self) -> float:
        return self.grid.names_width() + 0.15 + len(self.columns) * _CELL

    @property
    def height(self) -> float:
        labels = max(map(len, self.columns)) * CHARACTER if self.is_turned else LINE
        return self.grid.height() + labels + _AXIS + LINE * (self.title.count("\n") + 1)

    @property
    def is_turned(self) -> bool:
        """Whether names of columns are too long to stand side by side."""
        return max(map(len, self.columns)) * CHARACTER > _CELL * 0.9


def plot_confusion(records: Sequence[Record]) -> Figure:
    """Draw the share of each gold class that is taken for every class, one panel per head.

    Counts of all seeds are added; a row's name says how many rows of dev its class has. Of very
    many classes, the rarest are drawn as one.

    Args:
        records: records; those without a confusion are left out.

    Raises:
        RecordError: no record has a confusion, a panel would add up more than seeds, or there are
            too many panels.
    """
    held = _confused(records)
    with matplotlib.rc_context(RC):
        panels = [_panel(name, group) for name, group in rows(held).items()]
        widest = max(panel.width for panel in panels)
        columns = max(1, min(len(panels), int(PAGE_WIDTH / widest)))
        lines = -(-len(panels) // columns)
        width = min(PAGE_WIDTH, max(_NARROWEST, columns * widest))
        title = title_text(shared_text(held), width)
        label = label_text(f"share of the gold class (%), {runs_text(held)}", width)
        heights = [max(panel.height for panel in panels)] * lines
        text_lines = 2 + f"{title}{label}".count("\n")
        figure = new_figure(width, sum(heights) + _BELOW + LINE * text_lines)
        grid = figure.add_gridspec(lines + 1, columns, height_ratios=[*heights, BAR])
        places = [grid[index // columns, index % columns] for index in range(len(panels))]
        axes = [figure.add_subplot(place) for place in places]
        meshes = [_draw(*pair) for pair in zip(axes, panels, strict=True)]
        bar = figure.add_subplot(grid[-1, :])
        figure.colorbar(meshes[0], cax=bar, orientation="horizontal", label=label)
        bar.spines[:].set_visible(False)
        figure.suptitle(title, fontsize=RC["axes.titlesize"])
        for one, mesh, panel in zip(axes, meshes, panels, strict=True):
            print_values(one, mesh, panel.grid, figure, decimals=0)
        return figure


def _confused(records: Sequence[Record]) -> list[Record]:
    """Return the records with a confusion; of full and truncated depths, the full ones."""
    held = [record for record in records if record.confusion is not None]
    if not held:
        raise RecordError(
            f"none of {len(records)} records holds a confusion of classes; run `probekit train` "
            "on a task with classes first."
        )
    held = [record for record in held if record.depth is None] or held
    if len(rows(held)) > MAX_PANELS:
        raise RecordError(
            f"{len(rows(held))} panels are too many for one figure (at most {MAX_PANELS}); choose "
            "some, such as --where head=p32,dwatt."
        )
    return held


def _panel(name: str, records: Sequence[Record]) -> _Panel:
    check_seeds(records, " ".join(name.split()))
    names, counts = most_frequent(*total_confusion(records), MAX_CLASSES)
    occurs = np.flatnonzero(counts.sum(1))
    sizes = counts.sum(1)[occurs]
    labels = [
        f"{names[place]} ({size / len(records):,.0f})"
        for place, size in zip(occurs, sizes, strict=True)
    ]
    return _Panel(name, names, Grid(labels, 100 * counts[occurs] / sizes[:, None]))


def _draw(axes: Axes, panel: _Panel) -> QuadMesh:
    mesh = draw_cells(axes, panel.grid, low=0.0, high=100.0)
    places = range(len(panel.columns))
    turned = 90 if panel.is_turned else 0
    axes.set_xticks(places, panel.columns, rotation=turned)
    axes.set_xlabel("predicted")
    axes.set_ylabel("gold (rows of dev)")
    axes.set_title(panel.title, loc="left")
    return mesh
