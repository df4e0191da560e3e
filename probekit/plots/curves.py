"""Curves of a panel with their intervals (bands along a dense axis, else bars), and its axes."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    MultipleLocator,
    NullFormatter,
    NullLocator,
)

from probekit.metrics import Scale
from probekit.plots.style import CurveStyle, hollow_options
from probekit.results.summaries.interval import Interval

_DENSE = 16  # from so many points on, only some carry a marker
_SHADE, _PALE, _FEW = 0.22, 0.1, 3  # opacity of a band, and of one among more than a few
_EDGE = 0.6  # opacity of its edges
_CURVE = 3  # z-order, above bands and grid
_PERCENT = Scale()
_DECADES = 3.6  # from so many on, a logarithmic axis of scores has ticks at powers of ten alone
_TICKS = 8  # most of these
_BESIDE = 0.4  # octaves of an axis beside its outer points, which may be several side by side
_MARGIN = 0.05  # share of what is drawn that a y axis has beyond either end of it
_BEYOND = 2.5  # most of that beyond a score of 100
_LABEL = 0.085  # share of an axis that a number needs beside the next one


def draw_band(
    axes: Axes,
    curve: Mapping[float, Interval],
    style: CurveStyle,
    order: int,
    scale: Scale,
    hollow: Collection[float],
    curves: int = 1,
) -> None:
    """Draw a curve (scores by position) with a band.

    Args:
        axes: where.
        curve: mean and interval at each position, in ascending order.
        style: of the curve.
        order: number of the curve, which shifts its markers so that curves do not hide others'.
        scale: what the scores can be.
        hollow: positions of the points whose runs have a trouble.
        curves: how many bands may lie over each other; those of many are paler.
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
        shade = _SHADE if curves <= _FEW else _PALE
        axes.fill_between(
            x,
            low,
            high,
            facecolor=to_rgba(style.colour, shade),
            edgecolor=to_rgba(style.colour, _EDGE),  # which tells a band from those it lies over
            linewidth=0.5,
            zorder=2,
        )
    _draw_hollow(axes, curve, style, hollow)


def draw_bars(
    axes: Axes,
    curve: Mapping[float, Interval],
    style: CurveStyle,
    scale: Scale = _PERCENT,
    along: Literal["x", "y"] = "x",
    hollow: Collection[float] = (),
) -> None:
    """Draw scores by position with error bars.

    Args:
        axes: where.
        curve: mean and interval at each position.
        style: of the curve.
        scale: what the scores can be.
        along: the axis of the positions; on the y axis they are classes, which no line connects.
        hollow: positions of the points whose runs have a trouble.
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
    _draw_hollow(axes, curve, style, hollow, along)


def _draw_hollow(
    axes: Axes,
    curve: Mapping[float, Interval],
    style: CurveStyle,
    positions: Collection[float],
    along: str = "x",
) -> None:
    """Draw the points at some positions of a curve with hollow markers, over the filled ones."""
    x = [position for position in curve if position in positions]
    if x:
        points = _turned(along, x, [curve[position].mean for position in x])
        axes.plot(*points, **hollow_options(style), zorder=_CURVE + 0.5)


def _turned(along: str, positions: list[float], scores: list[float]) -> tuple[list[float], ...]:
    return (positions, scores) if along == "x" else (scores, positions)


def relative_axis(axes: Axes) -> None:
    """Make the x axis one of layers divided by the number of blocks of their model."""
    axes.set_xlabel("layer / number of blocks (0 = emb)")
    axes.set_xlim(-0.03, 1.03)
    axes.xaxis.set_major_locator(MultipleLocator(0.25))


def layer_axis(axes: Axes, layers: Sequence[int]) -> None:
    """Make the x axis one of layer numbers, from the embeddings to the largest of ``layers``."""
    axes.set_xlabel("layer (0 = emb)")
    top = max(layers)
    axes.set_xlim(-0.4 - top * 0.01, top + 0.4 + top * 0.01)
    axes.xaxis.set_major_locator(MultipleLocator(_layer_step(top)))
    axes.xaxis.set_minor_locator(FixedLocator(range(top + 1)))


def _layer_step(top: int) -> int:
    """Return a distance of labels that gives at most nine, if possible with one at the top."""
    steps = [step for step in range(1, top + 2) if top / step <= 8]
    return next((step for step in steps[:4] if top % step == 0), steps[0])


def octave_axis(
    axes: Axes, label: str, texts: Mapping[float, str], over: Collection[float]
) -> None:
    """Make the x axis logarithmic, with a tick at every key, and its text where there is room.

    Args:
        axes: where.
        label: of the axis.
        texts: of the ticks, by place.
        over: places that the axis holds.
    """
    axes.set_xlabel(label)
    axes.set_xscale("log", base=2)
    low, high = min(over) / 2**_BESIDE, max(over) * 2**_BESIDE
    axes.set_xlim(low, high)
    room = math.log2(high / low) * _LABEL
    shown: list[float] = []
    for place in sorted(texts, reverse=True):
        if not shown or math.log2(shown[-1] / place) >= room:
            shown.append(place)
    axes.xaxis.set_major_locator(FixedLocator(sorted(texts)))
    labels = [texts[place] if place in shown else "" for place in sorted(texts)]
    axes.xaxis.set_major_formatter(FixedFormatter(labels))
    axes.xaxis.set_minor_locator(NullLocator())


def score_axis(
    group: Sequence[Axes], scale: Scale, curves: Iterable[Mapping[float, Interval]] = ()
) -> None:
    """Give some axes one y axis that holds all that is drawn in any of them, with a margin.

    It is logarithmic where the scores are raw and lie far apart.

    Args:
        group: axes, with all that lies along their y axes.
        scale: how the scores are shown.
        curves: of all of them; without, the axis is linear.
    """
    means = [point.mean for curve in curves for point in curve.values()]
    drawn = [axes.dataLim for axes in group if np.isfinite(axes.dataLim.get_points()).all()]
    if not drawn:
        return
    low, high = min(box.y0 for box in drawn), max(box.y1 for box in drawn)
    wide = bool(means) and scale.is_wide(min(means), max(means))
    if wide and low <= 0:  # an interval that reaches 0 has no end on a logarithmic axis
        low = min(box.minposy for box in drawn)
    for axes in group:
        if wide:
            _logarithmic_axis(axes, low, high)
        else:
            axes.set_ylim(_with_margin(low, high, scale))


def _with_margin(low: float, high: float, scale: Scale) -> tuple[float, float]:
    """Return the ends of a linear axis of scores; equal ones have some room, below a best of 100.

    No tick stands beyond what a score can be, since a margin is less than a step.
    """
    # 50 and 100: 47.5 and 102.5; 0 and 100: -5 and 102.5; 100 alone: 94.75 and 100.25
    if high - low < 1e-9 * max(abs(low), abs(high), 1.0):
        room = 2.5 if scale.percent else 0.025 * (abs(high) or 1.0)
        low, high = low - room, high + room
        over = max(0.0, high - 100) if scale.percent else 0.0
        low, high = low - over, high - over
    margin = _MARGIN * (high - low)
    end = min(high + margin, max(high, 100.0) + _BEYOND) if scale.percent else high + margin
    return low - margin, end


def _logarithmic_axis(axes: Axes, low: float, high: float) -> None:
    axes.set_yscale("log")
    margin = max(1.3, (high / low) ** _MARGIN)
    axes.set_ylim(low / margin, high * margin)
    many = math.log10(high / low) > _DECADES
    locator = LogLocator(10, numticks=_TICKS) if many else LogLocator(10, (1, 2, 5), numticks=20)
    axes.yaxis.set_major_locator(locator)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _power_text(value)))


def _power_text(value: float) -> str:
    """Return a number as it is, from 100,000 on as the power of ten that it is about."""
    if value < 1e5:
        return f"{value:g}"
    exponent = math.floor(math.log10(value) + 1e-9)
    times = round(value / 10**exponent)
    return ("" if times == 1 else rf"${times}\cdot$") + f"$10^{{{exponent}}}$"


def step_axis(axes: Axes, label: str) -> None:
    """Make the x axis one of training steps or epochs, from zero."""
    axes.set_xlabel(label)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 2.5, 5, 10]))


def decade_axis(axes: Axes, label: str) -> None:
    """Make the x axis logarithmic, for what lies decades apart."""
    axes.set_xlabel(label)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(10, numticks=_TICKS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _power_text(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
