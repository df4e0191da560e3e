"""Panels of what was measured from the predictions of every depth, one per head, model and task."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from probekit.plots.legend import LegendPlan, put_legend
from probekit.plots.naming import choice_text, diverged_text, one_last_name, seeds_text
from probekit.plots.panels import MAX_PANELS, Panel, PanelFigure
from probekit.plots.style import refuse_many
from probekit.results.comparison.resampled_groups import Drawn, drawn_text
from probekit.results.overthinking import DepthCurve
from probekit.results.overthinking.estimates import Estimate
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
