"""The style of every curve: a colour, a marker and a dash pattern by which it is told apart."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from probekit.plots.style import refuse_many
from probekit.results.summaries.grouping import head_order

# Okabe and Ito's colours for all kinds of colour vision, with grey for the yellow, which is too
# light for lines on white. The counts of colours, markers and dashes have no common factor, so
# that no two curves share more than one of them.
_COLOURS = ("#000000", "#E69F00", "#0072B2", "#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#8C8C8C")
_MARKERS = (
    ("o", 3.8),
    ("s", 3.5),
    ("^", 4.6),
    ("D", 3.5),
    ("v", 4.6),
    ("P", 5.2),
    ("X", 5.0),
    ("<", 4.6),
    (">", 4.6),
    ("p", 4.8),
    ("*", 6.2),
)
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (1.3, 1.1)),
    (0, (4, 1.2, 1.2, 1.2)),
    (0, (5, 1, 1, 1, 1, 1)),
)
_TURNS = (11, 12, 0, 7, 3, 2, 6, 5, 8, 4, 1, 9, 10)
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
