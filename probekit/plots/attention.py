"""Mean layer attention of every gold class (attention-fusion paper, section 5; DWAtt, Fig. 5)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from probekit.errors import RecordError
from probekit.plots.cells import Grid, layer_values
from probekit.plots.colours import lift_colours
from probekit.plots.heatmap import heatmap_figure
from probekit.plots.look import PLAIN, Given, Look, given_axes, styled
from probekit.plots.naming import choice_text, rows, runs_text, shared_text
from probekit.plots.style import refuse_many
from probekit.results.record import Record
from probekit.results.summaries.by_class import (
    by_support,
    check_classes,
    class_support,
    frequent_classes,
    mean_class_weights,
    support_text,
)
from probekit.results.summaries.grouping import full_depth, grouped
from probekit.results.summaries.layer_measures import INITIAL, WEIGHTS

MAX_PANELS = 6
MAX_CLASSES = 40
_MANY = 14  # from more rows on, they are low and have no numbers
_ALL, _BEFORE = "all", "all, before training"


@styled
def plot_attention(
    records: Sequence[Record],
    classes: Sequence[str] = (),
    *,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Draw the mean weight over seeds of each layer for each gold class: one panel per head.

    Weights are drawn as their lift over uniform, as by ``plot_weights``. The first row of a panel
    is the mean over all rows of dev, and the second one, where records have it, the same before
    training. Classes follow, those with the most rows of dev first, with their number. Heads that
    weigh all rows alike are left out, as records hold no weights per class for them. Of very many
    classes, those with the most rows are drawn; the title says so.

    Args:
        records: records; those without weights per class are left out.
        classes: the classes to draw; all, or the most frequent, when empty.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        OptionError: one of the classes does not occur, or the axes do not fit the panels.
        RecordError: no record has such weights, a cell would average over more than seeds, or
            there are too many panels or named classes.
    """
    given, records = records, _weighed(records, classes)
    groups = rows(records)
    refuse_many(len(groups), MAX_PANELS, "panels", choice_text(groups.values()))
    tops = {
        model: max(layer for one in group for layer in one.layers)
        for (model,), group in grouped(records, ["model"]).items()
    }
    grids = {}
    for name, group in groups.items():
        title, lifts = _panel(name, group, classes)
        values = layer_values(lifts.values(), tops[group[0].model])
        grids[title] = Grid(list(lifts), values, numbers=len(lifts) <= _MANY)
    shared = shared_text(records)
    values = np.concatenate([grid.values.ravel() for grid in grids.values()])
    figure = heatmap_figure(
        list(grids.values()),
        [f"{' '.join(name.split())}, {shared}" for name in grids],
        "lift over uniform (weight x layers read; 1: uniform), mean over dev rows of the class",
        lift_colours(values),
        notes=runs_text(groups.values(), WEIGHTS.lost(given, records)),
        ax=ax,
        look=look,
    )
    panels = given_axes(ax, list(grids), look) or figure.axes
    for axes, grid in zip(panels, grids.values(), strict=False):
        heights = grid.row_heights[: 2 if _BEFORE in grid.names else 1]
        axes.axhline(sum(heights), color="black", linewidth=0.8)
    return figure


def _weighed(records: Sequence[Record], classes: Sequence[str]) -> list[Record]:
    """Return the records that weigh the classes; of full and truncated depths, the full ones."""
    held = [record for record in records if record.class_weights]
    if not held:
        raise RecordError(
            f"none of {len(records)} records holds layer weights per class; run `probekit train` "
            "with a head that weighs the layers of each row, such as --head attention-fusion."
        )
    check_classes(classes, {name for record in held for name in record.class_weights})
    if classes:
        held = [record for record in held if set(classes).intersection(record.class_weights)]
    return full_depth(held)


def _panel(
    name: str, records: Sequence[Record], classes: Sequence[str]
) -> tuple[str, dict[str, dict[int, float]]]:
    """Return the title of a panel, and the lift of every layer by row."""
    title = " ".join(name.split())
    by_class = mean_class_weights(records, title)
    drawn = _drawn(records, list(by_class), classes)
    overall = {_ALL: WEIGHTS.means(records, title)}
    initial = INITIAL.means(records, title)
    if initial:
        overall[_BEFORE] = initial
    support = class_support(records, drawn)
    found = {row: {n: one.mean for n, one in values.items()} for row, values in overall.items()}
    found |= {support_text(one, support): by_class[one] for one in by_support(drawn, support)}
    layers = len(records[0].layers)
    lifts = {row: {n: v * layers for n, v in values.items()} for row, values in found.items()}
    left_out = len(by_class) - len(drawn) if not classes else 0
    return name + (f", {len(drawn)} of {len(by_class)} classes" if left_out else ""), lifts


def _drawn(records: Sequence[Record], found: Sequence[str], classes: Sequence[str]) -> list[str]:
    """Return the classes of a panel: those named, else the most frequent."""
    if not classes:
        return frequent_classes(records, found, MAX_CLASSES)
    named = [name for name in found if name in classes]
    refuse_many(len(named), MAX_CLASSES, "classes", "name fewer in --classes")
    return named
