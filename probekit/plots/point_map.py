"""Heatmaps of scores by depth: a row per head or point, such as each attention head of a model."""

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from probekit.base.layers import POINTS, ReadPoint
from probekit.errors import RecordError
from probekit.plots.heatmap import MANY_ROWS, MAX_ROWS, Grid, heatmap_figure, layer_values
from probekit.plots.naming import choice_text, runs_text
from probekit.plots.panels import Panel, split_panels
from probekit.plots.style import COLOUR_MAP, PLAIN, Colours, Given, Look, refuse_many, styled
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import MARK, marks
from probekit.results.summaries.grouping import BASELINES, grouped
from probekit.results.summaries.scored import Scored, shown
from probekit.results.summaries.wording import metric_text


@styled
def plot_points(
    records: Sequence[Record],
    split: Scored | None = None,
    *,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Draw the score of every head and point at every depth, as cells whose colour is the score.

    Args:
        records: those without a truncated depth, and baselines, are left out.
        split: whose scores; None is test where all the records have one, else dev.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        UnknownNameError: there is no such split.
        OptionError: the axes do not fit the panels.
        RecordError: no record has a depth, a cell would average over more than seeds, or there are
            too many rows or panels.
    """
    held = [r for r in records if r.depth is not None and r.head not in BASELINES]
    if not held:
        raise RecordError("no record is of a depth; run `probekit depth` with --point first.")
    held, split = shown(held, split)
    panels = split_panels(held, by=["shots"], along=["depth"])
    rows = [members for panel in panels for members in panel.curves.values()]
    refuse_many(len(rows), MAX_ROWS, "rows", choice_text(rows))
    grids = [_grid(panel, split, numbers=len(rows) <= MANY_ROWS) for panel in panels]
    scores = np.concatenate([grid.values.ravel() for grid in grids])
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    metrics = dict.fromkeys(f"{split} {metric_text(panel.metric)}" for panel in panels)
    return heatmap_figure(
        grids,
        [panel.title for panel in panels],
        ", ".join(metrics),
        Colours(COLOUR_MAP, lambda: Normalize(low, high)),
        notes=runs_text([cell for row in rows for cell in grouped(row, ["depth"]).values()]),
        decimals=1,
        ax=ax,
        look=look,
    )


def _grid(panel: Panel, split: Scored, *, numbers: bool) -> Grid:
    """Return the scores of a panel, points in their own order, attention heads by number."""
    curves = panel.score_curves("depth", split)
    points = {name: _point(members[0]) for name, members in panel.curves.items()}
    order = sorted(curves, key=lambda name: (panel.curves[name][0].head, *_sort_key(points[name])))
    means = [{int(n): cell.mean for n, cell in curves[name].items()} for name in order]
    alone = len(set(points.values())) == len(points)  # so a point is name enough
    named = [
        f"{points[name]}{f' {MARK}' if marks(panel.curves[name]) else ''}" if alone else name
        for name in order
    ]
    return Grid(named, layer_values(means, max(map(max, means))), numbers=numbers)


def _point(record: Record) -> ReadPoint:
    return ReadPoint.parse(record.spec.get("point"))


def _sort_key(point: ReadPoint) -> tuple[int, int]:
    head = -1 if point.attention_head is None else point.attention_head
    return [*POINTS].index(point.names[-1]), head
