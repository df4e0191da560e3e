"""Overthinking by depth: what each depth has right, of all rows and where the last is wrong."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probekit.plots.curves import layer_axis
from probekit.plots.look import PLAIN, Given, Look, styled
from probekit.plots.measured_panels import Line, draw_estimates, explain, panels_of
from probekit.plots.panels import PANEL_HEIGHT, panel_figure
from probekit.results.overthinking import depth_curves
from probekit.results.overthinking.estimates import Bootstrap
from probekit.results.overthinking.measure import read_reported
from probekit.results.overthinking.shares import SharesByDepth, shares_by_depth
from probekit.results.record import Record

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
