"""Curves of a panel: styles, intervals (bands along a dense axis, else bars), and axes."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, StrMethodFormatter

from probekit.metrics import Scale
from probekit.plots.style import note_mark, refuse_many
from probekit.results.summaries.grouping import head_order
from probekit.results.summaries.interval import Interval

# Okabe and Ito's colours for all kinds of colour vision, with grey for the yellow, which is too
# light for lines on white. The counts of colours, markers and dashes have no common factor, so
# that no two curves share more than one of them.
_COLOURS = ("#000000", "#E69F00", "#0072B2", "#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#8C8C8C")
_MARKERS = (
    ("o", 3.8), ("s", 3.5), ("^", 4.6), ("D", 3.5), ("v", 4.6), ("P", 5.2), ("X", 5.0), ("<", 4.6),
    (">", 4.6), ("p", 4.8), ("*", 6.2),
)  # fmt: skip
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (1.3, 1.1)),
    (0, (4, 1.2, 1.2, 1.2)),
    (0, (5, 1, 1, 1, 1, 1)),
)
_TURNS = (11, 12, 13, 0, 7, 3, 2, 6, 5, 8, 4, 1, 9, 10)
"""Style of each of ``head_order()``; of a head after these, the place in that order."""

MAX_CURVES = 12


@dataclass(frozen=True, slots=True)
class CurveStyle:
    """Name, colour, marker (with its size in points) and dash pattern of one curve."""

    name: str = field(compare=False)
    colour: str
    marker: str
    size: float
    dashes: Any

    def line_options(self) -> dict[str, Any]:
        """Return the keyword arguments of ``Axes.plot``."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.dashes,
            "linewidth": 1.2,
            "markersize": self.size,
            "markeredgecolor": "white",
            "markeredgewidth": 0.4,
        }

    def hollow_options(self) -> dict[str, Any]:
        """Return the keyword arguments of ``Axes.plot`` for the points of runs with a trouble."""
        return self.line_options() | {
            "linestyle": "none",
            "markersize": self.size + 0.6,
            "markerfacecolor": "white",
            "markeredgecolor": self.colour,
            "markeredgewidth": 1.0,
        }


def curve_styles(
    names: Sequence[str], remedy: str = "choose some, such as --where head=last,p32"
) -> dict[str, CurveStyle]:
    """Return a style for every curve; a head's only curve has the same one in every figure.

    Args:
        names: of the curves.
        remedy: what to do about too many.

    Raises:
        RecordError: there are more curves than a reader can tell apart.
    """
    curves = f"curves ({'; '.join(names[:2])}; ...)"
    refuse_many(len(names), MAX_CURVES, curves, remedy)
    heads = [name.partition(",")[0] for name in names]
    turns = dict(
        zip(head_order(), itertools.chain(_TURNS, itertools.count(len(_TURNS))), strict=False)
    )
    settled = {
        name: turns[head]
        for name, head in zip(names, heads, strict=True)
        if head in turns and heads.count(head) == 1
    }
    others = (index for index in itertools.count() if index not in settled.values())
    return {
        name: _style(name, settled[name] if name in settled else next(others)) for name in names
    }


def _style(name: str, index: int) -> CurveStyle:
    colour = _COLOURS[index % len(_COLOURS)]
    return CurveStyle(name, colour, *_MARKERS[index % len(_MARKERS)], _DASHES[index % len(_DASHES)])


_DENSE = 16  # from so many points on, only some carry a marker
_SHADE, _PALE, _FEW = 0.22, 0.1, 3  # opacity of a band, and of one among more than a few
_EDGE = 0.6  # opacity of its edges
_CURVE = 3  # z-order, above bands and grid
_PERCENT = Scale()
_BESIDE = 0.4  # octaves of an axis beside its outer points, which may be several side by side
_MARGIN = 0.05  # share of what is drawn that a y axis has beyond either end of it
_BEYOND = 2.5  # most of that beyond a score of 100
_LABEL = 0.085  # share of an axis that a number needs beside the next one


def draw_band(
    axes: Axes,
    curve: Mapping[float, Interval],
    style: CurveStyle,
    scale: Scale,
    order: int = 0,
    curves: int = 1,
    troubles: Mapping[float, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Draw a curve (scores by position) with a band.

    Args:
        axes: where.
        curve: mean and interval at each position, in ascending order.
        style: of the curve.
        scale: what the scores can be.
        order: number of the curve, which shifts its markers so that curves do not hide others'.
        curves: how many bands may lie over each other; those of many are paler.
        troubles: what is wrong with runs, by position; these points are hollow.
    """
    x, points = list(curve), list(curve.values())
    every = 1 if len(x) < _DENSE else max(2, len(x) // 8)
    means = [point.mean for point in points]
    axes.plot(x, means, markevery=(order % every, every), zorder=_CURVE, **style.line_options())
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
    _mark_points(axes, curve, style, troubles)


def draw_bars(
    axes: Axes,
    curve: Mapping[float, Interval],
    style: CurveStyle,
    scale: Scale = _PERCENT,
    *,
    shift: float = 0.0,
    names: Mapping[float, str] | None = None,
    troubles: Mapping[float, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Draw scores by position with error bars.

    Args:
        axes: where.
        curve: mean and interval at each position.
        style: of the curve.
        scale: what the scores can be.
        shift: octaves by which points stand right of their positions, beside those of others.
        names: of positions that are classes: these lie along y, and no line connects them.
        troubles: what is wrong with runs, by position; these points are hollow.
    """
    placed = {position * 2**shift: point for position, point in curve.items()}
    means = [point.mean for point in placed.values()]
    connected = {"linestyle": "none"} if names else {}
    options = style.line_options() | connected
    axes.plot(*_turned(names, list(placed), means), zorder=_CURVE, **options)
    for position, point in placed.items():
        if point.half is not None:
            ends = scale.clip(point.low, point.high)
            axes.plot(
                *_turned(names, [position, position], list(ends)),
                color=style.colour,
                linewidth=0.8,
                marker="|" if names else "_",
                markersize=3.5,
                markeredgewidth=0.8,
                zorder=_CURVE - 0.5,
            )
    _mark_points(axes, curve, style, troubles, shift, names)


def _mark_points(
    axes: Axes,
    curve: Mapping[float, Interval],
    style: CurveStyle,
    troubles: Mapping[float, Sequence[str]],
    shift: float = 0.0,
    names: Mapping[float, str] | None = None,
) -> None:
    """Make points with a trouble hollow, over the filled ones, and note what all points show."""
    hollow = [position for position in curve if position in troubles]
    if hollow:
        means = [curve[position].mean for position in hollow]
        placed = [position * 2**shift for position in hollow]
        options = style.hollow_options()
        axes.plot(*_turned(names, placed, means), zorder=_CURVE + 0.5, **options)
    for position, point in curve.items():
        (x,), (y,) = _turned(names, [position * 2**shift], [point.mean])
        values = {
            "curve": style.name,
            "x": names[position] if names else position,
            "y": point.mean,
            "low": None if point.half is None else point.low,
            "high": None if point.half is None else point.high,
            "seeds": point.n,
            "note": ", ".join(troubles.get(position, ())) or None,
        }
        note_mark(axes, x, y, values)


def _turned(
    names: object, positions: list[float], scores: list[float]
) -> tuple[list[float], list[float]]:
    return (scores, positions) if names else (positions, scores)


def layer_axis(axes: Axes, layers: Sequence[int]) -> None:
    """Make the x axis one of layer numbers, from the embeddings to the largest of ``layers``."""
    axes.set_xlabel("layer (0 = emb)")
    top = max(layers)
    axes.set_xlim(-0.4 - top * 0.01, top + 0.4 + top * 0.01)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.xaxis.set_minor_locator(FixedLocator(range(top + 1)))


def octave_axis(axes: Axes, label: str, texts: Mapping[float, str]) -> None:
    """Make the x axis logarithmic, with a tick at every place, and its text where there is room."""
    axes.set_xlabel(label)
    axes.set_xscale("log", base=2)
    low, high = min(texts) / 2**_BESIDE, max(texts) * 2**_BESIDE
    axes.set_xlim(low, high)
    room = math.log2(high / low) * _LABEL
    shown: list[float] = []
    for position in sorted(texts, reverse=True):
        if not shown or math.log2(shown[-1] / position) >= room:
            shown.append(position)
    labels = [texts[position] if position in shown else "" for position in sorted(texts)]
    axes.set_xticks(sorted(texts), labels)
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
    wide = bool(means) and scale.is_wide(min(means), max(means))
    for axes in group:
        if wide:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.set_ymargin(0)
        axes.autoscale_view(scalex=False)
    lows, highs = zip(*(axes.get_ylim() for axes in group), strict=True)
    low, high = min(lows), max(highs)
    if wide:
        low, high = low / (high / low) ** _MARGIN, high * (high / low) ** _MARGIN
    else:
        low, high = low - _MARGIN * (high - low), high + _MARGIN * (high - low)
    if scale.percent:  # no tick stands beyond what a score can be
        high = min(high, 100 + min(_BEYOND, _MARGIN * (100 - low)))
    for axes in group:
        axes.set_ylim(low, high)
