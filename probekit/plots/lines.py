"""Draw a curve with its interval: as a band along a dense axis, as bars at a few points."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from probekit.plots.style import CurveStyle
from probekit.results.interval import Interval

_DENSE = 16  # from so many points on, only some carry a marker
_CURVE = 3  # z-order, above bands and grid


def draw_band(axes: Axes, curve: Mapping[float, Interval], style: CurveStyle, order: int) -> None:
    """Draw a curve (percent by position) with a band.

    Args:
        axes: where.
        curve: mean and interval at each position, in ascending order.
        style: of the curve.
        order: number of the curve, which shifts its markers so that curves do not hide others'.
    """
    x, points = list(curve), list(curve.values())
    every = 1 if len(x) < _DENSE else max(2, len(x) // 8)
    axes.plot(
        x,
        [point.mean for point in points],
        markevery=(order % every, every),
        zorder=_CURVE,
        **style.line_options(),
    )
    if any(point.half is not None for point in points):
        low, high = zip(*(_within_percent(point) for point in points), strict=True)
        axes.fill_between(x, low, high, color=style.colour, alpha=0.16, linewidth=0, zorder=2)


def draw_bars(axes: Axes, curve: Mapping[float, Interval], style: CurveStyle) -> None:
    """Draw a curve (percent by position) with error bars."""
    x, points = list(curve), list(curve.values())
    axes.plot(x, [point.mean for point in points], zorder=_CURVE, **style.line_options())
    for position, point in zip(x, points, strict=True):
        if point.half is not None:
            low, high = _within_percent(point)
            axes.plot(
                [position, position],
                [low, high],
                color=style.colour,
                linewidth=0.8,
                marker="_",
                markersize=3.5,
                markeredgewidth=0.8,
                zorder=_CURVE - 0.5,
            )


def _within_percent(point: Interval) -> tuple[float, float]:
    """Return an interval's ends, cut to what a score can be (few seeds make it very wide)."""
    floor = 0.0 if point.mean >= 0 else -100.0
    return max(point.low, floor), min(point.high, 100.0)
