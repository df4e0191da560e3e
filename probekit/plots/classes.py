"""Single classes: their F1 by head, what their rows are taken for, and which layers they weigh.

Layer attention per gold class is that of the attention-fusion paper, section 5, and DWAtt, Fig. 5.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from probekit.base.layers import point_of
from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.plots import heatmap, style
from probekit.plots.curves import draw_bars
from probekit.plots.naming import choice_text, rows, runs_text, shared_text
from probekit.plots.panels import Panel, PanelFigure, finish, panel_figure, split_panels
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import marks
from probekit.results.summaries.grouping import check_seeds, full_depth, grouped, holding, key_of
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.layer_measures import INITIAL, WEIGHTS
from probekit.results.summaries.scored import (
    SCORE_OF,
    Scored,
    by_support,
    check_classes,
    class_scores,
    class_support,
    mean_class_scores,
    mean_class_weights,
    merged_others,
    most_confused,
    support_text,
    total_confusion,
)

_SCORED = 30  # classes whose F1 is drawn, at most
_WEIGHED = 40  # classes of a heatmap of attention, at most
_MARKER, _GAP = 0.7, 1.2  # height of each marker, and between two classes, ems
_SPREAD = 0.72  # share of a class's height over which its markers are spread

_TASK = ("task", "label")
_PANELS, _MOST = 6, 16  # confusions of a figure, and classes of each, at most
_BESIDE = 6  # classes of confusions that stand beside each other, at most


@style.styled
def plot_classes(
    records: Sequence[Record],
    split: Scored = "dev",
    classes: Sequence[str] = (),
    *,
    ax: style.Given = None,
    look: style.Look = style.PLAIN,
) -> Figure:
    """Draw the F1 of every class, with 95 % intervals over seeds, one marker per head.

    Spans are scored by type; other classes are scored row by row, from the confusion on dev. The
    class with the most gold rows (of spans: spans) of dev stands first, with their number.

    Args:
        records: records; those that know nothing of single classes are left out.
        split: where they were scored.
        classes: the classes to draw; all when empty.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        UnknownNameError: there is no such split.
        OptionError: none of the classes occurs, or the axes do not fit the panels.
        RecordError: no record holds scores of classes, there are too many of these, or a marker
            would average over more than seeds.
    """
    choose("split", split, SCORE_OF)
    records = _scored(records, split, classes)
    panels = split_panels(records, by=["shots", "fraction", "depth"], along=[])
    names = [_names(panel, split, classes) for panel in panels]
    curves = max(len(panel.curves) for panel in panels)
    size = rcParams["font.size"] / 72
    height = size * max(map(len, names)) * (_MARKER * curves + _GAP)
    drawn = panel_figure(panels, height=height, ax=ax, look=look)
    points = []
    for (axes, panel), shown in zip(drawn.panels, names, strict=True):
        support = class_support(panel.records, shown)
        points.append(_draw_markers(axes, panel, drawn, split, dict(enumerate(shown))))
        _class_axis(axes, [support_text(name, support) for name in shown])
        axes.set_xlabel(f"{split} F1 (%)")
    finish(drawn, points, connected=False, shared=False)
    return drawn.figure


def _scored(records: Sequence[Record], split: Scored, classes: Sequence[str]) -> list[Record]:
    """Return the records that know the classes; of full and truncated depths, the full ones."""
    held = {index: class_scores(record, split) for index, record in enumerate(records)}
    names = {name for scores in held.values() for name in scores}
    if not names:
        other: Scored = "test" if split == "dev" else "dev"
        remedy = (
            f"they hold that of {other}: --split {other}."
            if any(class_scores(record, other) for record in records)
            else "run `probekit train` on a task with spans or classes first."
        )
        raise RecordError(
            f"none of {len(records)} records holds the {split} F1 of single classes; {remedy}"
        )
    check_classes(classes, names)
    wanted = set(classes) or names
    kept = [record for index, record in enumerate(records) if wanted.intersection(held[index])]
    return full_depth(kept)


def _names(panel: Panel, split: Scored, classes: Sequence[str]) -> list[str]:
    """Return the classes of a panel, in order."""
    held = {name for record in panel.records for name in class_scores(record, split)}
    shown = held.intersection(classes) if classes else held
    names = by_support(shown, class_support(panel.records, shown))
    remedy = "choose some with --classes, or another kind of labels with --where label=NAME"
    style.refuse_many(len(names), _SCORED, "classes", remedy)
    return names


def _draw_markers(
    axes: Axes, panel: Panel, drawn: PanelFigure, split: Scored, names: Mapping[int, str]
) -> list[dict[float, Interval]]:
    """Draw the markers of all heads, those of one class below each other; return their points."""
    step = _SPREAD / len(panel.curves)
    points = []
    for order, (curve, members) in enumerate(panel.curves.items()):
        shift = (order - (len(panel.curves) - 1) / 2) * step
        means = mean_class_scores(members, split, curve)
        held = {row + shift: name for row, name in names.items() if name in means}
        placed = {height: means[name].scaled(100) for height, name in held.items()}
        wrong = marks(members)
        troubles = dict.fromkeys(placed, wrong) if wrong else {}
        draw_bars(axes, placed, drawn.styles[curve], names=held, troubles=troubles)
        points.append(placed)
    return points


def _class_axis(axes: Axes, names: Sequence[str]) -> None:
    """Write the classes from the top down, each with its own ground."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_ylabel("")
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)
    for row in range(0, len(names), 2):
        axes.axhspan(row - 0.5, row + 0.5, color="#f3f3f3", linewidth=0, zorder=0)


@style.styled
def plot_confusion(
    records: Sequence[Record], *, ax: style.Given = None, look: style.Look = style.PLAIN
) -> Figure:
    """Draw the share of each gold class that is taken for every class, one panel per head.

    Counts of all seeds are added. Classes are ordered by their rows of dev, which a row's name
    says; a cell without a number is less than half a percent. Of many classes, those that are
    confused least by all heads of a task together are drawn as one.

    Args:
        records: records; those without a confusion are left out.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        OptionError: the axes do not fit the panels.
        RecordError: no record has a confusion, a panel would add up more than seeds, or there are
            too many panels.
    """
    absent = "a confusion of classes; run `probekit train` on a task with classes first."
    held = holding(records, lambda record: record.confusion, absent)
    groups = rows(held)
    style.refuse_many(len(groups), _PANELS, "panels", choice_text(groups.values()))
    most = _MOST if (look.width or style.PAGE_WIDTH) > 2 * style.COLUMN_WIDTH else _MOST // 2
    of_tasks = grouped(held, _TASK)
    grids = {n: _confusion(n, g, of_tasks[key_of(g[0], _TASK)], most) for n, g in groups.items()}
    columns = 1 if max(len(grid.classes) for grid in grids.values()) > _BESIDE else 2
    return heatmap.heatmap_figure(
        list(grids.values()),
        list(grids),
        "share of the gold class (%)",
        heatmap.Colours(heatmap.COLOUR_MAP, Normalize(0.0, 100.0)),
        notes=runs_text(groups.values()),
        heading=shared_text(held),
        columns=min(len(grids), columns),
        decimals=0,
        ax=ax,
        look=look,
    )


def _confusion(
    name: str, records: Sequence[Record], of_task: Sequence[Record], most: int
) -> heatmap.Grid:
    """Return what the rows of each gold class are taken for, by one head.

    All panels of a task show the same classes, so that their cells can be compared: those that its
    heads confuse most, all together; those with the most gold rows first.
    """
    check_seeds(records, " ".join(name.split()))
    every, counts = total_confusion(of_task)
    rows_of = counts.sum(1)
    places = sorted(most_confused(counts, most), key=lambda index: -rows_of[index])
    own, counts = total_confusion(records)
    at = [every.index(class_name) for class_name in own]
    whole = np.zeros((len(every), len(every)))
    whole[np.ix_(at, at)] = counts
    names, counts = merged_others(every, whole, places)
    sizes = counts.sum(1)
    occurs = np.flatnonzero(sizes)
    labels = [f"{names[index]} ({sizes[index] / len(records):,.0f})" for index in occurs]
    shares = 100 * counts[occurs] / sizes[occurs, None]
    # less than half a percent is neither coloured nor written
    return heatmap.Grid(labels, np.where(np.round(shares) > 0, shares, np.nan), classes=names)


_OVERALL = _ALL, _BEFORE = "all", "all, before training"


@style.styled
def plot_attention(
    records: Sequence[Record],
    classes: Sequence[str] = (),
    *,
    ax: style.Given = None,
    look: style.Look = style.PLAIN,
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
    style.refuse_many(len(groups), _PANELS, "panels", choice_text(groups.values()))
    tops = {
        model: max(point_of(layer)[1] for record in group for layer in record.layers)
        for (model,), group in grouped(records, ["model"]).items()
    }
    grids, overall = {}, []
    for name, group in groups.items():
        title, by_layer = _panel(name, group, classes)
        lifts = heatmap.rows_by_point(by_layer)
        overall.append(
            len(heatmap.rows_by_point({n: by_layer[n] for n in _OVERALL if n in by_layer}))
        )
        values = heatmap.layer_values(lifts.values(), tops[group[0].model])
        grids[title] = heatmap.Grid(list(lifts), values, numbers=len(lifts) <= heatmap.MANY_ROWS)
    shared = shared_text(records)
    values = np.concatenate([grid.values.ravel() for grid in grids.values()])
    figure = heatmap.heatmap_figure(
        list(grids.values()),
        [f"{' '.join(name.split())}, {shared}" for name in grids],
        "lift over uniform (weight x layers read; 1: uniform), mean over dev rows of the class",
        heatmap.lift_colours(values),
        notes=runs_text(groups.values(), WEIGHTS.lost(given, records)),
        ax=ax,
        look=look,
    )
    panels = style.given_axes(ax, list(grids), look) or figure.axes
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
        style.refuse_many(len(drawn), _WEIGHED, "classes", "name fewer in --classes")
    elif len(drawn) > _WEIGHED:
        drawn = drawn[:_WEIGHED]
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
