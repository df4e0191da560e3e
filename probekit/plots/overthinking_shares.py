"""Overthinking by depth: what each depth has right, any up to it, and those that the last loses."""

from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probekit.plots.curves import layer_axis
from probekit.plots.measured_panels import Given, Line, MeasuredPanels, draw_estimates
from probekit.plots.style import RC
from probekit.results.overthinking import depth_curves
from probekit.results.overthinking.estimates import Bootstrap
from probekit.results.overthinking.measure import read_reported
from probekit.results.overthinking.shares import SharesByDepth, shares_by_depth
from probekit.results.record import Record

_BLACK, _BLUE, _RED = "#000000", "#0072B2", "#D55E00"
_CHANCE = (0, (4, 1.5))
_MARKED = {"markeredgecolor": "white", "markeredgewidth": 0.4, "linewidth": 1.2}

_LINES: Mapping[str, Line] = {
    "right": {"color": _BLACK, "marker": "o", "markersize": 3.8, "label": "right at this depth"},
    "cumulative": {"color": _BLUE, "marker": "s", "markersize": 3.5,
                   "label": "cumulative: right at this depth or before"},
    "cumulative_chance": {"color": _BLUE, "linestyle": _CHANCE,
                          "label": "chance: as many refits of the last depth"},
    "destructive": {"color": _RED, "marker": "^", "markersize": 4.6,
                    "label": "destructive: the same, and the last depth is wrong"},
    "destructive_chance": {"color": _RED, "linestyle": _CHANCE,
                           "label": "chance: as many refits of the last depth"},
}  # fmt: skip


@matplotlib.rc_context(RC)
def plot_overthinking(
    records: Sequence[Record], split: str | None = None, *, ax: Given = None
) -> Figure:
    """Draw the shares of rows that grow with the depths that take part, beside their chance.

    Each earlier depth takes part by its refit on a bootstrap resample; the dashed line has as many
    refits of the last depth, on the same resamples, so that the distance between the two is the
    excess over chance (`results.overthinking.shares`). Bands are 95 % bootstrap intervals.

    Args:
        records: of ``probekit overthinking``, refits included.
        split: ``test`` or ``dev``; None is test where all have one, else dev.
        ax: axes of the caller's own, one per head, model and task.

    Raises:
        RecordError: depths, refits, predictions or classes are missing, or panels are too many.
        MissingFileError: a side file of predictions does not exist.
        OptionError: more or fewer axes than panels.
    """
    curves = depth_curves(records, refits=True)
    entries = [_MARKED | dict(line) for line in _LINES.values()]
    panels = MeasuredPanels(curves, entries, ax)
    figure, axes = panels.open()
    for one, curve in zip(axes, curves, strict=True):
        reported, _ = read_reported(curve, split)
        _draw(one, shares_by_depth(reported, Bootstrap(samples=2_000)))
        one.set_ylabel(f"% of {reported.split} {reported.unit}")
    panels.close(figure, axes)
    return figure


def _draw(axes: Axes, found: SharesByDepth) -> None:
    for name, line in _LINES.items():
        estimates = getattr(found, name)
        draw_estimates(axes, found.depths[: len(estimates)], estimates, _MARKED | dict(line))
    layer_axis(axes, found.depths)
    axes.set_ylim(0, 102)
