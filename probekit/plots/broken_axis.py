"""An axis of percentages without the empty middle between what lies low and what lies high."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

_EMPTY = 0.4  # share of an axis from which on its empty middle is left out
_LEFT_OUT = 0.08  # what then stands for it, as a share of the axis
_MARGIN = 0.08  # share of each part that it has beyond what is drawn
_LEAST = 0.5  # of each part, points of percentage
_TICKS = 4  # most steps of a part
_GROUND = "#ececec"
_SLANTED = [(-1, -0.5), (1, 0.5)]  # the mark of a break

Range = tuple[float, float]


@dataclass(frozen=True)
class BrokenAxis:
    """The two parts of an axis, each of which has half of what the break leaves.

    Attributes:
        low: ends of the lower part.
        high: ends of the upper one.
    """

    low: Range
    high: Range

    @property
    def is_broken(self) -> bool:
        """Whether the middle is left out."""
        gap = self.high[0] - self.low[1]
        return gap > _EMPTY * (self.high[1] - self.low[0])

    @classmethod
    def of(cls, low: Range, high: Range) -> "BrokenAxis":
        """Return the axis for what is drawn low and high, with margins, within 0 and 100."""
        return cls(_widened(*low), _widened(*high))

    def _places(self) -> tuple[list[float], list[float]]:
        """Return the ends of both parts, and where they stand: 0 at the bottom, 1 at the top."""
        half = (1 - _LEFT_OUT) / 2
        return [*self.low, *self.high], [0.0, half, 1 - half, 1.0]

    def put(self, axes: Axes) -> None:
        """Make it the y axis of some axes; one that is not broken is linear, over both parts."""
        if not self.is_broken:
            axes.set_ylim(min(self.low[0], self.high[0]), max(self.low[1], self.high[1]))
            return
        values, places = self._places()
        axes.set_yscale(
            "function",
            functions=(
                lambda value: _line_through(value, values, places),
                lambda place: _line_through(place, places, values),
            ),
        )
        axes.set_ylim(values[0], values[-1])
        ticks = [tick for part in (self.low, self.high) for tick in _ticks(*part)]
        axes.yaxis.set_major_locator(FixedLocator(ticks))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.axhspan(self.low[1], self.high[0], color=_GROUND, linewidth=0, zorder=3)
        for end in (self.low[1], self.high[0]):
            axes.plot(
                *([0], [end]),
                transform=axes.get_yaxis_transform(),
                color="black",
                marker=_SLANTED,
                markersize=7,
                markeredgewidth=0.8,
                clip_on=False,
                zorder=5,
            )


def _widened(low: float, high: float) -> Range:
    room = max(_MARGIN * (high - low), (_LEAST - (high - low)) / 2)
    return max(low - room, -_MARGIN * _LEAST), min(high + room, 100 + _MARGIN * _LEAST)


def _ticks(low: float, high: float) -> list[float]:
    found = MaxNLocator(_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return [float(tick) for tick in found if low <= tick <= high]


def _line_through(values: np.ndarray, xs: list[float], ys: list[float]) -> np.ndarray:
    """Return a line in pieces through some points, the outer pieces going on beyond them."""
    # points (0, 0), (1, 4), (2, 5): -1 -> -4, 0.5 -> 2, 3 -> 6
    values = np.asarray(values, np.float64)
    piece = np.clip(np.searchsorted(xs, values) - 1, 0, len(xs) - 2)
    x, y = np.array(xs), np.array(ys)
    slopes = np.diff(y) / np.diff(x)
    return np.asarray(y[piece] + slopes[piece] * (values - x[piece]))
