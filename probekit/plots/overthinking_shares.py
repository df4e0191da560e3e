"""Overthinking by depth: what each depth has right, any up to it, and those that the last loses."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probekit.plots.broken_axis import BrokenAxis
from probekit.plots.curves import layer_axis
from probekit.plots.look import PLAIN, Given, Look, styled
from probekit.plots.measured_panels import Line, draw_estimates, explain, panels_of
from probekit.plots.panels import PANEL_HEIGHT, panel_figure
from probekit.results.overthinking import depth_curves
from probekit.results.overthinking.depth_curves import with_refits
from probekit.results.overthinking.estimates import Bootstrap, Estimate
from probekit.results.overthinking.measure import read_reported
from probekit.results.overthinking.shares import SharesByDepth, shares_by_depth
from probekit.results.record import Record

_BLACK, _BLUE, _RED = "#000000", "#0072B2", "#D55E00"
_TALL = 2.9  # height of panels of which one has two parts, inches
_MARKED = {"markeredgecolor": "white", "markeredgewidth": 0.4, "linewidth": 1.2}

_LINES: Mapping[str, Line] = {
    "right": {"color": _BLACK, "marker": "o", "markersize": 3.8},
    "cumulative": {"color": _BLUE, "marker": "s", "markersize": 3.5},
    "destructive": {"color": _RED, "marker": "^", "markersize": 4.6},
}
_LABELS = {
    "right": "right: the probe of this depth",
    "cumulative": "cumulative, refitted: right at this depth or before",
    "destructive": "destructive, refitted: likewise, and wrong at the last",
}
_REFITTED = "refitted: earlier depths on a resample of train, as in the column of the table"
_LEFT_OUT = "grey: left out of the axis"
_LEVELS: Mapping[str, Line] = {
    "chance": {"linestyle": (0, (4, 1.5)), "label": "chance: as many refits of the last depth"},
    "guessing": {"linestyle": (0, (1.3, 1.1)), "label": "guessing: predictions of another row"},
}


@styled
def plot_overthinking(
    records: Sequence[Record],
    split: str | None = None,
    *,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Draw the shares of rows that grow with the depths that take part, beside their chance.

    Each earlier depth takes part by its refit on a bootstrap resample, so that lines end at what
    the table calls refitted, while ``right`` is of the probes themselves; a dashed line has as many
    refits of the last depth, on the same resamples, and a dotted one the depths' predictions of
    another row, so that the distances are the excess over the two levels of chance
    (`results.overthinking.shares`). Bands are 95 % bootstrap intervals. Where nothing lies between
    the destructive share and the others, the axis leaves the middle out.

    Args:
        records: of ``probekit overthinking``, refits included; heads without any, such as the
            scalar mixes of ``--expected-layer``, are left out where others have some.
        split: ``test`` or ``dev``; None is test where all have one, else dev.
        ax: axes of your own, one per head, model and task.
        look: width, title and font size.

    Raises:
        RecordError: depths, refits, predictions or classes are missing, or panels are too many.
        MissingFileError: a side file of predictions does not exist.
        OptionError: the axes do not fit the panels.
    """
    curves = depth_curves(with_refits(records) or records, refits=True)
    panels = panels_of(curves)
    reported = [read_reported(curve, split)[0] for curve in curves]
    labels = [f"% of {one.split} {one.unit}" for one in reported]
    shares = [shares_by_depth(one, Bootstrap(samples=2_000)) for one in reported]
    scales = [_axis_of(found) for found in shares]
    broken = any(scale.is_broken for scale in scales)
    height = _TALL if broken else PANEL_HEIGHT
    drawn = panel_figure(panels, height, labels=labels, ax=ax, look=look)
    for (axes, _), found, scale in zip(drawn.panels, shares, scales, strict=True):
        _draw(axes, found)
        scale.put(axes)
    entries = [_MARKED | dict(line) | {"label": _LABELS[name]} for name, line in _LINES.items()]
    entries += [{"color": "#666666", "linewidth": 1.0, **level} for level in _LEVELS.values()]
    over = [one.groups.drawn for one in reported]
    explain(drawn, curves, entries, over, also=[_REFITTED, *[_LEFT_OUT] * broken])
    return drawn.figure


def _draw(axes: Axes, found: SharesByDepth) -> None:
    shares = {"right": found.right, "cumulative": found.cumulative.refitted,
              "destructive": found.destructive.refitted}  # fmt: skip
    for name, line in _LINES.items():
        places = found.depths[: len(shares[name])]
        draw_estimates(axes, places, shares[name], _MARKED | dict(line))
    for name, growing in (("cumulative", found.cumulative), ("destructive", found.destructive)):
        # at the last depth its own probe takes part, and all that it has right is no guess
        levels = {"chance": growing.chance, "guessing": growing.guessing[: len(found.depths) - 1]}
        for level, estimates in levels.items():
            values = [100 * one.value for one in estimates]
            style = {"color": _LINES[name]["color"], "linewidth": 1.0, **_LEVELS[level]}
            axes.plot(found.depths[: len(values)], values, **style)
    layer_axis(axes, found.depths)


def _axis_of(found: SharesByDepth) -> BrokenAxis:
    """Return the axis of a panel: its lower part is that of the destructive share."""
    destructive, cumulative = (
        [*growing.refitted, *growing.chance, *growing.guessing[: len(found.depths) - 1]]
        for growing in (found.destructive, found.cumulative)
    )
    return BrokenAxis.of(_range(destructive), _range([*cumulative, *found.right]))


def _range(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Return the ends of what is drawn of some shares, in percent."""
    return 100 * min(one.low for one in estimates), 100 * max(one.high for one in estimates)
