"""Draw a curve with its interval: as a band along a dense axis, as bars at a few points."""

from collections.abc import Collection, Mapping
from typing import Literal

from matplotlib.axes import Axes

from probekit.metrics import Scale
from probekit.plots.style import CurveStyle, hollow_options
from probekit.results.summaries.interval import Interval

_DENSE = 16  # from so many points on, only some carry a marker
_CURVE = 3  # z-order, above bands and grid
_PERCENT = Scale()


def draw_band(
    axes: Axes,
    curve: Mapping[float, Interval],
    style: CurveStyle,
    order: int,
    scale: Scale = _PERCENT,
) -> None:
    """Draw a curve (scores by position) with a band.

    Args:
        axes: where.
        curve: mean and interval at each position, in ascending order.
        style: of the curve.
        order: number of the curve, which shifts its markers so that curves do not hide others'.
        scale: what the scores can be.
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
        low, high = zip(*(scale.clip(point.low, point.high) for point in points), strict=True)
        axes.fill_between(x, low, high, color=style.colour, alpha=0.16, linewidth=0, zorder=2)


def draw_hollow(
    axes: Axes,
    curve: Mapping[float, Interval],
    positions: Collection[float],
    style: CurveStyle,
    along: Literal["x", "y"] = "x",
) -> None:
    """Draw the points at some positions of a curve with hollow markers, over the filled ones.

    Args:
        axes: where.
        curve: mean and interval at each position.
        positions: of the points whose runs have a trouble.
        style: of the curve.
        along: as for ``draw_bars``.
    """
    x = [position for position in curve if position in positions]
    if x:
        points = _turned(along, x, [curve[position].mean for position in x])
        axes.plot(*points, **hollow_options(style), zorder=_CURVE + 0.5)


def draw_bars(
    axes: Axes,
    curve: Mapping[float, Interval],
    style: CurveStyle,
    scale: Scale = _PERCENT,
    along: Literal["x", "y"] = "x",
) -> None:
    """Draw scores by position with error bars.

    Args:
        axes: where.
        curve: mean and interval at each position.
        style: of the curve.
        scale: what the scores can be.
        along: the axis of the positions; on the y axis they are classes, which no line connects.
    """
    x, points = list(curve), list(curve.values())
    means = [point.mean for point in points]
    connected = {} if along == "x" else {"linestyle": "none"}
    axes.plot(*_turned(along, x, means), zorder=_CURVE, **style.line_options() | connected)
    for position, point in zip(x, points, strict=True):
        if point.half is not None:
            ends = scale.clip(point.low, point.high)
            axes.plot(
                *_turned(along, [position, position], list(ends)),
                color=style.colour,
                linewidth=0.8,
                marker="_" if along == "x" else "|",
                markersize=3.5,
                markeredgewidth=0.8,
                zorder=_CURVE - 0.5,
            )


def _turned(along: str, positions: list[float], scores: list[float]) -> tuple[list[float], ...]:
    return (positions, scores) if along == "x" else (scores, positions)
