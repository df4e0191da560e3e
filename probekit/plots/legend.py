"""Legends that are never cut off: labels are measured and wrapped, and the figure grows by them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from probekit.plots.naming import fitted_text, text_width
from probekit.plots.style import lay_out

_ROOM = 20.0  # height that no legend exceeds while it is measured, inches
_GAP = 0.06  # height between panels and legend, inches
_CLEAR, _MOST = 8.0, 0.7  # pixels below a legend inside axes, and most of their height it takes
_MARGIN = 1.4  # width around a legend, ems
_PHRASE = 1.35  # width that a phrase (what a mark means) needs at least, inches of a 7 pt text


@dataclass(frozen=True)
class LegendPlan:
    """What a legend says.

    Attributes:
        curves: its first entries, named by what they are.
        phrases: its last entries, which say what marks mean and may be broken into lines.
        title: what a point is.
        connected: whether the samples are lines.
    """

    curves: Sequence[Line2D]
    phrases: Sequence[Line2D]
    title: str
    connected: bool = True

    @property
    def _sample(self) -> float:
        """Width of a sample with the space after it and before the next column, ems."""
        return (3.2 if self.connected else 1.0) + 0.8 + 1.2

    def columns(self, width: float) -> int:
        """Return how many columns of entries fit into a width (inches)."""
        sizes = [text_width(str(handle.get_label()), _size()) for handle in self.curves]
        sizes += [_PHRASE * _size() / 7] * bool(self.phrases)
        column = max(sizes) + self._sample * _size() / 72
        count = len(self.curves) + len(self.phrases)
        return max(1, min(count, int((width - _margin()) / column)))

    def wrapped(self, width: float, columns: int) -> list[Line2D]:
        """Return the entries, their labels in lines that fit into a column."""
        room = (width - _margin()) / columns - self._sample * _size() / 72
        handles = [*self.curves, *self.phrases]
        for handle in handles:
            handle.set_label(fitted_text(str(handle.get_label()), room, _size()))
        return handles


def _size() -> float:
    return float(rcParams["legend.fontsize"])


def _margin() -> float:
    """Return the width around a legend in inches."""
    return _MARGIN * _size() / 72


def put_legend(where: Figure | Axes, plan: LegendPlan, beside: Sequence[Axes] = ()) -> Legend:
    """Put a legend below all that a figure holds, or inside some axes, above what is drawn there.

    A figure becomes higher by the legend's own height, as it is measured. Axes keep their size, and
    what is drawn in them is moved down, so that the legend hides nothing.

    Args:
        where: a figure of ours, or axes of the caller's.
        plan: what it says.
        beside: axes that keep one y axis with ``where``, if they have the same now.
    """
    inside = isinstance(where, Axes)
    figure = where.get_figure(root=True) if isinstance(where, Axes) else where
    assert figure is not None
    if inside:
        lay_out(figure)
    width = where.get_window_extent().width / figure.dpi
    columns = plan.columns(width)
    legend = where.legend(
        handles=plan.wrapped(width, columns),
        loc="upper center" if inside else "outside lower center",
        ncols=columns,
        title=fitted_text(plan.title, width - _margin(), float(rcParams["legend.title_fontsize"])),
        frameon=inside,
        handlelength=3.2 if plan.connected else 1.0,
        columnspacing=1.2,
        borderaxespad=0.2,
    )
    legend.get_title().set_multialignment("center")
    if isinstance(where, Axes):
        _make_room(where, legend, beside)
    else:
        panels = where.get_figheight()
        where.set_figheight(panels + _ROOM)
        lay_out(where)
        where.set_figheight(panels + legend.get_window_extent().height / figure.dpi + _GAP)
    return legend


def _make_room(axes: Axes, legend: Legend, beside: Sequence[Axes]) -> None:
    """Move what is drawn in some axes below their legend; ticks stay where there is something."""
    height = axes.get_window_extent().height
    room = height - min(legend.get_window_extent().height + _CLEAR, _MOST * height)
    limits = axes.get_ylim()
    scale = axes.yaxis.get_transform()
    bottom, top = scale.transform(np.array(limits))
    end = float(scale.inverted().transform(np.array([bottom + (top - bottom) * height / room]))[0])
    for one in [axes, *(other for other in beside if other.get_ylim() == limits)]:
        ticks = [tick for tick in one.get_yticks() if min(limits) <= tick <= max(limits)]
        labels = one.yaxis.get_major_formatter()
        one.set_ylim(limits[0], end)
        one.yaxis.set_major_locator(FixedLocator(ticks))
        one.yaxis.set_major_formatter(labels)
