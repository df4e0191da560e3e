"""How far the layers of a model were moved, and how alike they still are."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probekit.plots.curves import layer_axis
from probekit.plots.look import PLAIN, Given, Look, given_axes, styled
from probekit.plots.naming import fitted_text
from probekit.plots.style import PAGE_WIDTH, font_scale, new_figure
from probekit.results.layer_geometry import Change, change_title

_HEIGHT = 2.2  # of the figure, inches
_COLOUR = "#0072B2"
_CHANGE, _CKA = "change ± SD of rows, ||after - before|| / ||before||", "CKA, after with before"
_LINE = {"color": _COLOUR, "linewidth": 1.2, "marker": "o", "markersize": 2.6}


@styled
def plot_change(found: Change, *, ax: Given = None, look: Look = PLAIN) -> Figure:
    """Draw by layer the relative change of states, mean ± SD over rows, and CKA beside it.

    Args:
        found: what ``probekit.change`` returned.
        ax: two axes of your own.
        look: width, title and font size.

    Raises:
        OptionError: the axes do not fit the panels.
    """
    places = given_axes(ax, [_CHANGE, _CKA], look, "give two")
    own = not places
    if own:
        figure = new_figure(look.width or PAGE_WIDTH, _HEIGHT * font_scale())
        places = list(figure.subplots(1, 2))
    numbers = [one.layer for one in found.layers]
    mean, deviation, alike = (
        np.array([math.nan if value is None else value for value in values])
        for values in zip(*((o.change, o.deviation, o.cka) for o in found.layers), strict=True)
    )
    _draw(places[0], numbers, mean, _CHANGE)
    low, high = np.maximum(mean - deviation, 0), mean + deviation
    places[0].fill_between(numbers, low, high, color=_COLOUR, alpha=0.16, linewidth=0)
    places[0].set_ylim(bottom=0)
    _draw(places[1], numbers, alike, _CKA)
    figure = places[0].get_figure(root=True)  # type: ignore[assignment]
    assert figure is not None
    title = change_title(found) if look.title is None else look.title
    if own and title:
        figure.suptitle(fitted_text(title, figure.get_figwidth(), 8 * font_scale()))
    return figure


def _draw(axes: Axes, numbers: Sequence[int], values: "np.ndarray", label: str) -> None:
    axes.plot(numbers, values, **_LINE)  # type: ignore[arg-type]
    axes.set_title(label, loc="left")
    axes.grid(axis="y")
    layer_axis(axes, numbers)
