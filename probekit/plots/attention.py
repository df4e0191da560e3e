"""Mean layer attention of every gold class (attention-fusion paper, section 5; DWAtt, Fig. 5)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from probekit.base.layers import point_of
from probekit.plots.heatmap import (
    MANY_ROWS,
    Grid,
    heatmap_figure,
    layer_values,
    lift_colours,
    rows_by_point,
)
from probekit.plots.naming import choice_text, rows, runs_text, shared_text
from probekit.plots.style import PLAIN, Given, Look, given_axes, refuse_many, styled
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped, holding
from probekit.results.summaries.layer_measures import INITIAL, WEIGHTS
from probekit.results.summaries.scored import (
    by_support,
    check_classes,
    class_support,
    mean_class_weights,
    support_text,
)

MAX_PANELS = 6
MAX_CLASSES = 40
_OVERALL = _ALL, _BEFORE = "all", "all, before training"


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
        model: max(point_of(layer)[1] for record in group for layer in record.layers)
        for (model,), group in grouped(records, ["model"]).items()
    }
    grids, overall = {}, []
    for name, group in groups.items():
        title, by_layer = _panel(name, group, classes)
        lifts = rows_by_point(by_layer)
        overall.append(len(rows_by_point({n: by_layer[n] for n in _OVERALL if n in by_layer})))
        values = layer_values(lifts.values(), tops[group[0].model])
        grids[title] = Grid(list(lifts), values, numbers=len(lifts) <= MANY_ROWS)
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
    for axes, grid, count in zip(panels, grids.values(), overall, strict=False):
        axes.axhline(sum(grid.row_heights[:count]), color="black", linewidth=0.8)
    return figure


def _weighed(records: Sequence[Record], classes: Sequence[str]) -> list[Record]:
    """Return the records that weigh the classes; of full and truncated depths, the full ones."""
    held = holding(
        records,
        lambda record: record.class_weights,
        "layer weights per class; run `probekit train` with a head that weighs the layers of each "
        "row, such as --head attention-fusion.",
    )
    check_classes(classes, {name for record in held for name in record.class_weights})
    asked = set(classes)
    return [record for record in held if not asked or asked.intersection(record.class_weights)]


def _panel(
    name: str, records: Sequence[Record], classes: Sequence[str]
) -> tuple[str, dict[str, dict[int, float]]]:
    """Return the title of a panel, and the lift of every layer by row."""
    title = " ".join(name.split())
    by_class = mean_class_weights(records, title)
    support = class_support(records, by_class)
    drawn = [
        class_name
        for class_name in by_support(by_class, support)
        if class_name in (classes or by_class)
    ]
    if classes:
        refuse_many(len(drawn), MAX_CLASSES, "classes", "name fewer in --classes")
    elif len(drawn) > MAX_CLASSES:
        drawn = drawn[:MAX_CLASSES]
        name += f", {len(drawn)} of {len(by_class)} classes"
    overall = {_ALL: WEIGHTS.means(records, title), _BEFORE: INITIAL.means(records, title)}
    weights = {
        row: {layer: mean.mean for layer, mean in means.items()}
        for row, means in overall.items()
        if means
    }
    weights |= {support_text(class_name, support): by_class[class_name] for class_name in drawn}
    factor = len(records[0].layers)
    return name, {
        row: {layer: weight * factor for layer, weight in of_layers.items()}
        for row, of_layers in weights.items()
    }
