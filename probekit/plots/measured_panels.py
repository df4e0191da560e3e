"""Panels of what was measured from the predictions of every depth, one per head, model and task."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from probekit.plots.curves import layer_axis
from probekit.plots.legend import LegendPlan, put_legend
from probekit.plots.look import PLAIN, Given, Look, styled
from probekit.plots.naming import choice_text, diverged_text, one_last_name, seeds_text
from probekit.plots.panels import MAX_PANELS, PANEL_HEIGHT, Panel, PanelFigure, panel_figure
from probekit.plots.style import refuse_many
from probekit.results.comparison.resampling import Bootstrap, Drawn, Estimate, drawn_text
from probekit.results.overthinking import DepthCurve, depth_curves
from probekit.results.overthinking.depth_predictions import read_reported
from probekit.results.overthinking.shares import SharesByDepth, shares_by_depth
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import marks
from probekit.results.summaries.wording import OPTIONS, options_text

Line = Mapping[str, Any]
"""Keyword arguments of ``Axes.plot``; its label stands in the legend."""

_BAND = 0.16  # opacity of the band of an estimate


def panels_of(curves: Sequence[DepthCurve]) -> list[Panel]:
    """Return a panel for each curve, with the records of its probes.

    Raises:
        RecordError: there are too many.
    """
    choice = choice_text(curve.records for curve in curves)
    refuse_many(len(curves), MAX_PANELS, "panels (one per head, model, task, ...)", choice)
    full = one_last_name([curve.records[0] for curve in curves])
    found = []
    for curve in curves:
        record = curve.records[0]
        said = {"model": record.model, "task": record.task, "label": record.label}
        if record.label == OPTIONS["label"].unsaid:
            del said["label"]
        title = f"{options_text(said, full)}, {curve.name}"
        found.append(Panel(title, record.metric, {curve.name: curve.records}))
    return found


def draw_estimates(
    axes: Axes, places: Sequence[float], estimates: Sequence[Estimate], line: Line
) -> None:
    """Draw percentages with a band between the ends of their intervals."""
    axes.plot(places, [100 * one.value for one in estimates], **{**line, "label": None})
    axes.fill_between(
        places,
        [100 * one.low for one in estimates],
        [100 * one.high for one in estimates],
        color=line["color"],
        alpha=_BAND,
        linewidth=0,
    )


def explain(
    drawn: PanelFigure,
    curves: Sequence[DepthCurve],
    entries: Sequence[Line],
    over: Sequence[Drawn],
    also: Sequence[str] = (),
) -> None:
    """Put one legend below all panels; its title says what intervals and lines are over.

    A curve is measured over all depths, so that what is wrong with a run marks no point of it.

    Args:
        drawn: the figure.
        curves: of its panels.
        entries: the lines of the legend.
        over: what the intervals of each curve are over.
        also: what else must be said.
    """
    records = [record for _, panel in drawn.panels for record in panel.records]
    seeds = seeds_text(len(run.records) for curve in curves for run in curve.probes.values())
    wrong = f"; some runs: {', '.join(marks(records))}" if marks(records) else ""
    what = f"95 % intervals over {drawn_text(over)}; {seeds}{diverged_text(records)}{wrong}"
    what = "; ".join([what, *also])
    handles = [Line2D([], [], **entry) for entry in entries]
    put_legend(
        drawn.legend_place, LegendPlan(handles, [], what), [axes for axes, _ in drawn.panels]
    )


_BLACK, _RED = "#000000", "#D55E00"
_MARKED = {"markeredgecolor": "white", "markeredgewidth": 0.4, "linewidth": 1.2}

_LINES: Mapping[str, Line] = {
    "all": _MARKED
    | {"color": _BLACK, "marker": "o", "markersize": 3.8, "label": "right, of all rows"},
    "right": _MARKED
    | {
        "color": _RED,
        "marker": "^",
        "markersize": 4.6,
        "label": "right, of the rows that the last depth has wrong",
    },
    "expected": {
        "color": _RED,
        "linestyle": (0, (4, 1.5)),
        "linewidth": 1.0,
        "label": "expected there by the last depth's own probabilities",
    },
}
_SURE = "filled: surely more than expected (5 %, Holm over the depths)"


@styled
def plot_overthinking(
    records: Sequence[Record],
    split: str | None = None,
    *,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Draw what each depth has right, and what an earlier one has right where the last is wrong.

    A dashed line has what the last depth's calibrated probabilities give to the classes that the
    earlier depth names there (`results.overthinking.expected`): above it, the depth knows what the
    last one has lost. Marks are filled where that is sure. Bands are 95 % bootstrap intervals.

    Args:
        records: of ``probekit depth``, with predictions.
        split: ``test`` or ``dev``; None is test where all have one, else dev.
        ax: axes of your own, one per head, model and task.
        look: width, title and font size.

    Raises:
        RecordError: depths, predictions or classes are missing, or panels are too many.
        MissingFileError: a side file of predictions does not exist.
        OptionError: the axes do not fit the panels.
    """
    curves = depth_curves(records)
    panels = panels_of(curves)
    reported = [read_reported(curve, split)[0] for curve in curves]
    labels = [f"% of {one.split} {one.unit}" for one in reported]
    drawn = panel_figure(panels, PANEL_HEIGHT, labels=labels, ax=ax, look=look)
    for (axes, _), one in zip(drawn.panels, reported, strict=True):
        _draw(axes, shares_by_depth(one, Bootstrap(samples=2_000)))
    over = [one.groups.drawn for one in reported]
    explain(drawn, curves, list(_LINES.values()), over, also=[_SURE])
    return drawn.figure


def _draw(axes: Axes, found: SharesByDepth) -> None:
    draw_estimates(axes, found.depths, found.right, _LINES["all"])
    earlier = found.depths[:-1]
    right = [one.right for one in found.earlier]
    draw_estimates(axes, earlier, right, {"color": _RED, "linewidth": 1.2})
    for one in found.earlier:
        face = _RED if one.knows else "white"
        place = [one.depth], [100 * one.right.value]
        axes.plot(*place, "^", color=_RED, markerfacecolor=face, markersize=4.6)
    expected = [100 * one.expected.value for one in found.earlier]
    axes.plot(earlier, expected, **{**_LINES["expected"], "label": None})
    layer_axis(axes, found.depths)
