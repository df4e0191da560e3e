"""Confusion matrices: what the rows of each gold class are taken for."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from probekit.errors import RecordError
from probekit.plots.heatmap import Grid, heatmap_figure
from probekit.plots.naming import rows, runs_text, shared_text, text_width
from probekit.plots.style import PAGE_WIDTH, refuse_many
from probekit.results.record import Record
from probekit.results.summaries.by_class import most_frequent, total_confusion
from probekit.results.summaries.grouping import check_seeds, full_depth

MAX_PANELS = 6
MAX_CLASSES = 30
_CELL = 0.31  # preferred width of a cell, inches
_NARROWEST = 2.4  # width of a figure, inches


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
    grids = {name: _grid(name, group) for name, group in rows(held).items()}
    widest = max(_width(grid) for grid in grids.values())
    return heatmap_figure(
        list(grids.values()),
        list(grids),
        f"share of the gold class (%), {runs_text(held)}",
        heading=shared_text(held),
        columns=max(1, min(len(grids), int(PAGE_WIDTH / widest))),
        low=0.0,
        high=100.0,
        decimals=0,
        narrowest=_NARROWEST,
    )


def _confused(records: Sequence[Record]) -> list[Record]:
    """Return the records with a confusion; of full and truncated depths, the full ones."""
    held = [record for record in records if record.confusion is not None]
    if not held:
        raise RecordError(
            f"none of {len(records)} records holds a confusion of classes; run `probekit train` "
            "on a task with classes first."
        )
    held = full_depth(held)
    remedy = "choose some, such as --where head=p32,dwatt"
    refuse_many(len(rows(held)), MAX_PANELS, "panels", remedy)
    return held


def _grid(name: str, records: Sequence[Record]) -> Grid:
    check_seeds(records, " ".join(name.split()))
    names, counts = most_frequent(*total_confusion(records), MAX_CLASSES)
    occurs = np.flatnonzero(counts.sum(1))
    sizes = counts.sum(1)[occurs]
    labels = [
        f"{names[place]} ({size / len(records):,.0f})"
        for place, size in zip(occurs, sizes, strict=True)
    ]
    return Grid(labels, 100 * counts[occurs] / sizes[:, None], classes=names, cell=_CELL)


def _width(grid: Grid) -> float:
    """Return about how wide a heatmap is with the names of its rows, inches."""
    return max(map(text_width, grid.names)) + 0.45 + grid.width
