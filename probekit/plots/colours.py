"""Colours of heatmaps: one hue for amounts, two hues for what may be more or less than a middle."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from matplotlib.colors import FuncNorm, Normalize

COLOUR_MAP = "magma_r"
"""Perceptually uniform, and light to dark without a turn, so it survives a greyscale printer."""

DIVERGING = "RdBu_r"
"""White in the middle; red and blue are told apart by all kinds of colour vision."""

_MOST = 16.0  # times an equal part, from which on all have the darkest red
_SHORT = 4  # times the linear part of a scale: up to there, all of it is linear
_LINEAR = 1e3  # times the reach of a scale: a linear part of which only the middle is used
_APART = 0.09  # least distance of a tick from the end of a bar, as a share of it


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


def lift_colours(values: np.ndarray) -> Colours:
    """Return colours of multiples of an equal part: white is 1, red is more, blue is less.

    None is as far from 1 as the double; from there on colours go by powers, up to 16 times.

    Args:
        values: all that are drawn, NaN where there is none.
    """
    low, most = min(0.0, float(np.nanmin(values))), float(np.nanmax(values))
    high = float(np.clip(2 ** math.ceil(math.log2(max(most, 1.0)) - 1e-9), 2.0, _MOST))
    reach = max(high - 1, 1 - low)
    ticks = {0.0: "0", 0.5: "1/2"} | {2.0**n: f"{2**n}" for n in range(int(math.log2(high)) + 1)}
    extend: Literal["neither", "max"] = "max" if most > high else "neither"
    return Colours(DIVERGING, lambda: _power_norm(1.0, 1.0, reach), ticks, (low, high), extend)


def signed_colours(values: np.ndarray, *, linear: float | None = None, base: int = 10) -> Colours:
    """Return colours of what may be negative: white is 0, both sides reach equally far.

    Args:
        values: all that are drawn, NaN where there is none.
        linear: up to where colours are linear, and by powers from there, so that small values show
            beside large ones; all of them are if None, or if it reaches far enough.
        base: of the powers that the bar names.
    """
    reach = reach_of(values)
    if linear is None or reach <= _SHORT * linear:
        return Colours(DIVERGING, lambda: _power_norm(0.0, _LINEAR * reach, reach))
    said = f"; colours: linear to \u00b1{linear:.2g}, then by powers"
    ticks = _power_ticks(linear, reach, base)
    norm = _power_norm
    return Colours(DIVERGING, lambda: norm(0.0, linear, reach), ticks, (-reach, reach), said=said)


def reach_of(values: np.ndarray) -> float:
    """Return the largest size of any value; 1 if all are 0."""
    return float(np.nanmax(np.abs(values))) or 1.0


def _power_norm(middle: float, linear: float, reach: float) -> Normalize:
    """Return a norm around a middle: linear near it, and by powers from there (``asinh``)."""
    return FuncNorm(
        (
            lambda values: np.arcsinh((values - middle) / linear),
            lambda places: middle + linear * np.sinh(places),
        ),
        middle - reach,
        middle + reach,
    )


def _power_ticks(linear: float, reach: float, base: int) -> dict[float, str]:
    """Return the ticks of a bar with their texts: 0, both ends, and powers that stand apart."""
    norm = _power_norm(0.0, linear, reach)
    # of 2.3 the powers 0.1 and 1: below, they would stand on top of the 0
    first, last = (math.log(end, base) for end in (linear * 0.8, reach))
    powers = [float(base) ** n for n in range(math.ceil(first), math.floor(last) + 1)]
    ends = [*(power for power in powers if 1 - float(norm(power)) >= _APART), reach]
    marks = [*(-end for end in reversed(ends)), 0.0, *ends]
    return {value: f"{value:.2g}".replace("-", "\u2212") for value in marks}
