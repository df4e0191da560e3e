"""Colours of heatmaps: one hue for amounts, two hues for what may be more or less than a middle."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from matplotlib.colors import AsinhNorm, CenteredNorm, Normalize

COLOUR_MAP = "magma_r"
"""Perceptually uniform, and light to dark without a turn, so it survives a greyscale printer."""

DIVERGING = "RdBu_r"
"""White in the middle; red and blue are told apart by all kinds of colour vision."""

_OCTAVES = (1, 4)  # least and most doublings from an equal part to the darkest red
_SHORT = 4  # times the linear part of a scale: up to there, all of it is linear
_APART = 0.09  # least distance of a tick from the end of a bar, as a share of it
_ZERO = 0.22  # place of 0 among the colours, where an equal part is at 0.5


class LiftNorm(Normalize):
    """From multiples of an equal part to 0..1: 1 in the middle, by doublings above, linear below.

    Most layers of a head that chooses one are near 0, which must not be the heaviest colour; what
    is below 0 has the heavier blues.

    Attributes:
        octaves: how often 1 is doubled up to the last colour.
    """

    def __init__(self, low: float, octaves: int) -> None:
        """Reach from ``low`` (at most 0) to 2 ** octaves."""
        super().__init__(min(low, 0.0), 2.0**octaves)
        self.octaves = octaves

    def __call__(self, value, clip=None):  # type: ignore[no-untyped-def]  # as in Normalize
        """Return places among the colours, below 0 and above 1 for what is beyond them."""
        # 3 octaves: 0 -> 0.22, 1/2 -> 0.36, 1 -> 0.5, 2 -> 2/3, 8 -> 1
        values: Any = np.ma.masked_invalid(np.ma.asarray(value, float))
        above = 0.5 + 0.5 * np.ma.log2(np.ma.maximum(values, 1.0)) / self.octaves
        below = 0.5 + (0.5 - _ZERO) * (values - 1)
        return np.ma.where(values >= 1, above, below)  # type: ignore[no-untyped-call]

    def inverse(self, value):  # type: ignore[no-untyped-def]  # as in Normalize
        """Return the values at some places."""
        places: Any = np.ma.asarray(value, float)
        above = 2.0 ** ((np.ma.maximum(places, 0.5) * 2 - 1) * self.octaves)
        below = 1 + (places - 0.5) / (0.5 - _ZERO)
        return np.ma.where(places >= 0.5, above, below)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Colours:
    """How values become colours.

    Attributes:
        map: name of matplotlib's colour map.
        norm: makes the norm, one per figure.
        ticks: values that the colour bar names, with their texts; matplotlib's own if empty.
        ends: of the bar, where its ticks are named.
        extend: whether values may lie beyond the end of the bar.
        said: what the bar says of them beside what the values are.
    """

    map: str
    norm: Callable[[], Normalize]
    ticks: Mapping[float, str] = field(default_factory=dict)
    ends: tuple[float, float] = (0.0, 1.0)
    extend: Literal["neither", "max"] = "neither"
    said: str = ""


def amount_colours(low: float | None, high: float | None) -> Colours:
    """Return light to dark colours between two values; those that occur where None."""
    return Colours(COLOUR_MAP, lambda: Normalize(low, high))


def lift_colours(values: np.ndarray) -> Colours:
    """Return colours of multiples of an equal part: white is 1, red is more, blue is less.

    Reds go by doublings, at most 16 times; what lies beyond has the last one.

    Args:
        values: all that are drawn, NaN where there is none.
    """
    found = values[np.isfinite(values)]
    most = float(found.max(initial=1.0))
    octaves = int(np.clip(np.ceil(np.log2(max(most, 1.0)) - 1e-9), *_OCTAVES))
    low = float(found.min(initial=0.0))
    ticks = {0.0: "0", 0.5: "1/2"} | {2.0**n: f"{2**n}" for n in range(octaves + 1)}
    extend: Literal["neither", "max"] = "max" if most > 2.0**octaves else "neither"
    ends = (min(low, 0.0), 2.0**octaves)
    return Colours(DIVERGING, lambda: LiftNorm(low, octaves), ticks, ends, extend)


def signed_colours(values: np.ndarray, *, linear: float | None = None, base: int = 10) -> Colours:
    """Return colours of what may be negative: white is 0, both sides reach equally far.

    Args:
        values: all that are drawn, NaN where there is none.
        linear: up to where colours are linear, and by powers from there (``asinh``), so that small
            values show beside large ones; all of them are if None, or if it reaches far enough.
        base: of the powers that the bar names.
    """
    reach = reach_of(values)
    if linear is None or reach <= _SHORT * linear:
        return Colours(DIVERGING, lambda: CenteredNorm(0.0, reach))
    return Colours(
        DIVERGING,
        lambda: AsinhNorm(linear, -reach, reach),
        _power_ticks(linear, reach, base),
        (-reach, reach),
        said=f"; colours: linear to \u00b1{linear:.2g}, then by powers",
    )


def reach_of(values: np.ndarray) -> float:
    """Return the largest size of any value; 1 if all are 0."""
    return float(np.nanmax(np.abs(values))) or 1.0


def _power_ticks(linear: float, reach: float, base: int) -> dict[float, str]:
    """Return the ticks of a bar with their texts: 0, both ends, and powers that stand apart."""

    def place(value: float) -> float:
        return 0.5 + 0.5 * math.asinh(value / linear) / math.asinh(reach / linear)

    # of 2.3 the powers 0.1 and 1: below, they would stand on top of the 0
    first, last = (math.log(end, base) for end in (linear * 0.8, reach))
    powers = [float(base) ** n for n in range(math.ceil(first), math.floor(last) + 1)]
    ends = [*(one for one in powers if place(reach) - place(one) >= _APART), reach]
    marks = [*(-end for end in reversed(ends)), 0.0, *ends]
    return {one: f"{one:.2g}".replace("-", "\u2212") for one in marks}
