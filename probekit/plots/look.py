"""What a caller may say of any figure: width, title and font size, and axes to draw into."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probekit.errors import OptionError
from probekit.plots.style import RC

P = ParamSpec("P")

Given = Axes | Sequence[Axes] | None
"""Axes of the caller's own to draw into, one per panel; None makes a figure."""

_SIZES = tuple(name for name in RC if name.endswith("size") and "major" not in name)
_WIDTHS = (1.5, 40.0)
_FONTS = (3.0, 40.0)


@dataclass(frozen=True, slots=True)
class Look:
    """How a figure is to look, where it should not be as usual.

    Attributes:
        width: of the whole figure, inches; None is one column (3.35) or a page (6.9), by content.
        title: stands in place of a single panel's title, or above several panels; an empty one
            leaves a single panel without a title.
        font_size: of titles and labels, points (8 if None); other texts are scaled with it.

    Raises:
        OptionError: a width or a font size that no figure can have.
    """

    width: float | None = None
    title: str | None = None
    font_size: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, value, (least, most), unit in (
            ("width", self.width, _WIDTHS, "inches"),
            ("font size", self.font_size, _FONTS, "points"),
        ):
            if value is not None and not least <= value <= most:
                raise OptionError(
                    f"a {name} of {value:g} {unit}: give one from {least:g} to {most:g} {unit}."
                )

    def rc(self) -> dict[Any, Any]:
        """Return the settings of matplotlib that the figure is drawn under."""
        factor = (self.font_size or RC["font.size"]) / RC["font.size"]
        return RC | {name: RC[name] * factor for name in _SIZES}


PLAIN = Look()
"""As usual."""


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Let a plot function draw under the settings of its ``look``; nothing global is changed."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        look = kwargs.get("look", PLAIN)
        if not isinstance(look, Look):
            raise OptionError(f"look: expected a probekit.Look, found {type(look).__name__}.")
        with matplotlib.rc_context(look.rc()):
            return draw(*args, **kwargs)

    return drawn


_FEWER = "choose records of one panel with select(records, [...])"


def given_axes(ax: Given, titles: Sequence[str], look: Look, fewer: str = _FEWER) -> list[Axes]:
    """Return the caller's axes, one per panel; none where a figure is to be made.

    Args:
        ax: what the caller gave.
        titles: of the panels, for the message.
        look: which cannot set the width of a figure that is not made here.
        fewer: how to have one panel, for the message.

    Raises:
        OptionError: there are more or fewer axes than panels, or a width was given as well.
    """
    if ax is None:
        return []
    axes = [ax] if isinstance(ax, Axes) else list(ax)
    for one in axes:
        if not isinstance(one, Axes):
            raise OptionError(
                f"ax: expected an Axes, or a sequence of them, found {type(ax).__name__}"
                f"{'' if isinstance(ax, str) else f' of {type(one).__name__}'}; give what "
                "matplotlib's subplots() returns, flattened."
            )
    if len(axes) != len(titles):
        listed = "; ".join(" ".join(title.split()) for title in titles)
        raise OptionError(
            f"ax: expected one Axes per panel, {len(titles)} ({listed}), found {len(axes)}; give a "
            f"sequence of as many, or {fewer}."
        )
    if look.width is not None:
        raise OptionError(
            "width: axes of your own were given (ax), so the figure has its width already; leave "
            "one of the two out."
        )
    return axes
