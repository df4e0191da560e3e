"""Mean layer attention of every gold class (attention-fusion paper, section 5; DWAtt, Fig. 5)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from probekit.errors import RecordError
from probekit.plots.heatmap import Grid, heatmap_figure, layer_values
from probekit.plots.naming import rows, runs_text, shared_text
from probekit.plots.style import refuse_many
from probekit.results.record import Record
from probekit.results.summaries.by_class import check_classes, frequent_classes, mean_class_weights
from probekit.results.summaries.grouping import full_depth
from probekit.results.summaries.learned_weights import lost_weights, mean_weights

MAX_PANELS = 6
MAX_CLASSES = 60
_ALL = "all"


def plot_attention(records: Sequence[Record], classes: Sequence[str] = ()) -> Figure:
    """Draw the mean weight over seeds of each layer for each gold class: one panel per head.

    The first row of a panel is the mean over all rows of dev. Heads that weigh all rows alike
    are left out, as records hold no weights per class for them. Of very many classes, those with
    the most rows of dev are drawn; the title says so.

    Args:
        records: records; those without weights per class are left out.
        classes: the classes to draw; all, or the most frequent, when empty.

    Raises:
        OptionError: one of the classes does not occur.
        RecordError: no record has such weights, a cell would average over more than seeds, or
            there are too many panels or named classes.
    """
    given, records = records, _weighed(records, classes)
    panels = _panels(records, classes)
    grids = {n: Grid(list(one), layer_values(one.values())) for n, one in panels.items()}
    shared = shared_text(records)
    runs = runs_text(records, lost_weights(given, records))
    figure = heatmap_figure(
        list(grids.values()),
        [f"{' '.join(name.split())}, {shared}" for name in grids],
        f"mean weight over dev rows of the gold class, {runs}",
        low=0.0,
        high=max(float(np.nanmax(grid.values)) for grid in grids.values()),
    )
    for axes, grid in zip(figure.axes, grids.values(), strict=False):  # the bar is the last one
        axes.axhline(grid.row_heights[0], color="black", linewidth=0.8)
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


def _panels(
    records: Sequence[Record], classes: Sequence[str]
) -> dict[str, dict[str, dict[int, float]]]:
    groups = rows(records)
    refuse_many(len(groups), MAX_PANELS, "panels", "choose some, such as --where head=dwatt")
    panels = {}
    for name, group in groups.items():
        by_class = mean_class_weights(group, " ".join(name.split()))
        drawn = _drawn(group, list(by_class), classes)
        overall = {n: weight.mean for n, weight in mean_weights(group, False, name).items()}
        left_out = len(by_class) - len(drawn) if not classes else 0
        note = f", {len(drawn)} of {len(by_class)} classes" if left_out else ""
        panels[name + note] = {_ALL: overall} | {n: by_class[n] for n in drawn}
    return panels


def _drawn(records: Sequence[Record], found: Sequence[str], classes: Sequence[str]) -> list[str]:
    """Return the classes of a panel: those named, else the most frequent."""
    if not classes:
        return frequent_classes(records, found, MAX_CLASSES)
    named = [name for name in found if name in classes]
    refuse_many(len(named), MAX_CLASSES, "classes", "name fewer in --classes")
    return named
