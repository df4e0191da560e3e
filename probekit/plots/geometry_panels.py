"""Layers without labels: their geometry, and how far they moved in training."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probekit.base.registry import choose
from probekit.plots import naming, style
from probekit.plots.curves import layer_axis
from probekit.plots.heatmap import COLOUR_MAP
from probekit.results.layer_geometry import Change, Geometry, LayerGeometry
from probekit.results.summaries.wording import model_text

_NARROWEST = 1.6  # width of a panel, inches
_HEIGHT = 1.5  # of one panel alone, inches
_FLATTEST = 0.62  # height of a panel, as a share of its width
_LINE: dict[str, Any] = {"color": "#0072B2", "linewidth": 1.2, "marker": "o", "markersize": 2.6}
_SHADE: dict[str, Any] = {"color": "#0072B2", "alpha": 0.16, "linewidth": 0}
_TICK = 4  # layers between labels of the heatmap, at most about as many labels as that
_CHANGE, _CKA = "change ± SD of rows, ||after - before|| / ||before||", "CKA, after with before"

Numbers = Callable[[LayerGeometry], Sequence[float | None]]
_MEASURES: Mapping[str, tuple[str, Numbers]] = {
    "rank": ("effective rank (covariance)", lambda layer: [layer.effective_rank]),
    "anisotropy": ("anisotropy (mean cosine)", lambda layer: [layer.anisotropy]),
    "dimension": (
        "intrinsic dimension, 95 %",
        lambda layer: [layer.intrinsic_dimension, layer.dimension_low, layer.dimension_high],
    ),
    "norm": (
        "row norm (mean ± SD)",
        lambda layer: [
            layer.norm, layer.norm - layer.norm_deviation, layer.norm + layer.norm_deviation,
        ],
    ),
}  # fmt: skip
"""What a panel shows of each layer: a number and, of some, the ends of what is shaded around it."""

PANELS = ("cka", *_MEASURES)
"""Names of the panels, in their order."""


@style.styled
def plot_geometry(
    geometry: Geometry,
    *,
    panel: str | None = None,
    ax: style.Given = None,
    look: style.Look = style.PLAIN,
) -> Figure:
    """Draw what was measured of the layers.

    The panels are linear CKA between layers, effective rank, anisotropy, intrinsic dimension and
    row norms; stars mark layers with massive activations. What is undefined leaves a gap.

    Args:
        geometry: what ``probekit.geometry`` or ``load_geometry`` returned.
        panel: one of ``PANELS`` alone; None is all of them.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        UnknownNameError: there is no such panel.
        OptionError: the axes do not fit the panels.
    """
    draw: dict[str, Callable[[Axes], str]] = {"cka": partial(_draw_similarity, geometry)}
    draw |= {name: partial(_draw_measure, geometry, name) for name in _MEASURES}
    if panel is not None:
        draw = {panel: choose("panel", panel, draw)}
    given = style.given_axes(ax, list(draw), look, "choose one of these with panel=")
    width = look.width or style.COLUMN_WIDTH
    columns = min(len(draw), max(1, int(width / _NARROWEST)), 3)
    heights = [_HEIGHT] * -(-len(draw) // columns)
    panels = given or style.new_axes(len(draw), columns, width, heights)
    titles = [draw_panel(axes) for axes, draw_panel in zip(panels, draw.values(), strict=True)]
    if not given:
        for axes in panels[:-columns]:
            axes.set_xlabel("")
    heading = f"{model_text(geometry.model)}, {geometry.rows_text}" if len(draw) > 1 else ""
    return _settle(panels, titles, look, heading, columns, made=not given)


def _settle(
    panels: Sequence[Axes],
    titles: Sequence[str],
    look: style.Look,
    heading: str,
    columns: int,
    *,
    made: bool,
) -> Figure:
    """Write the titles of panels, and one over all, and give a figure made here its height."""
    figure, alone = style.root_figure(panels[0]), len(panels) == 1
    size: naming.Size = "axes.titlesize" if alone else "ytick.labelsize"
    naming.write_titles(panels, titles, look, made=made, heading=heading, size=size)
    if made:
        height = max(_HEIGHT if alone else 0.0, _FLATTEST * style.size_of(panels[-1]))
        style.fit(figure, panels[::columns], height * len(panels[::columns]), "height")
    return figure


def _draw_similarity(geometry: Geometry, axes: Axes) -> str:
    """Draw CKA as a heatmap of layers by layers, from 0 to 1; return the panel's title."""
    values = np.array(geometry.cka, dtype=float)
    numbers = [layer.layer for layer in geometry.layers]
    edges = np.arange(len(numbers) + 1) - 0.5
    mesh = axes.pcolormesh(
        edges, edges, np.ma.masked_invalid(values), cmap=COLOUR_MAP, vmin=0, vmax=1
    )
    axes.set_aspect("equal", anchor="W")
    axes.set_facecolor("#e4e4e4")
    axes.spines[:].set_visible(False)
    every = max(1, round(len(numbers) / _TICK))
    shown_at = list(range(0, len(numbers), every))
    labels = [str(numbers[index]) for index in shown_at]
    axes.set_xticks(shown_at, labels)
    axes.set_yticks(shown_at, labels)
    axes.set_xlabel("layer (0 = emb)")
    beside = axes.inset_axes((1.06, 0.0, 0.06, 1.0))
    style.root_figure(axes).colorbar(mesh, cax=beside, ticks=[0, 0.5, 1])
    beside.spines[:].set_visible(False)
    return "linear CKA"


def _draw_measure(geometry: Geometry, name: str, axes: Axes) -> str:
    """Draw one number over the layers, with stars at layers with massive activations."""
    label, numbers = _MEASURES[name]
    layers = [layer.layer for layer in geometry.layers]
    values, *band = zip(*map(numbers, geometry.layers), strict=True)
    _draw_line(axes, layers, values)
    if band:
        low, high = map(_gaps, band)
        axes.fill_between(layers, low, high, **_SHADE)
    massive = [layer for layer in geometry.layers if layer.massive and name == "norm"]
    if not massive:
        return label
    norms = [layer.norm for layer in massive]
    axes.plot([layer.layer for layer in massive], norms, "*", color="#D55E00", markersize=5)
    return "row norm ± SD (\u2605 massive)"


def _draw_line(axes: Axes, layers: Sequence[int], values: Sequence[float | None]) -> None:
    """Draw a number over the layers; where it is undefined, the line has a gap."""
    axes.plot(layers, _gaps(values), **_LINE)
    axes.grid(axis="y")
    layer_axis(axes, layers)


def _gaps(values: Sequence[float | None]) -> np.ndarray:
    """Return numbers, which are none where they are undefined."""
    return np.array(values, dtype=float)


@style.styled
def plot_change(
    change: Change, *, ax: style.Given = None, look: style.Look = style.PLAIN
) -> Figure:
    """Draw by layer the relative change of states, mean ± SD over rows, and CKA beside it.

    Args:
        change: what ``probekit.change`` returned.
        ax: two axes of your own.
        look: width, title and font size.

    Raises:
        OptionError: the axes do not fit the panels.
    """
    titles = [_CHANGE, _CKA]
    given = style.given_axes(ax, titles, look, "give two")
    panels = given or style.new_axes(2, 2, look.width or style.PAGE_WIDTH, [_HEIGHT])
    numbers = [layer.layer for layer in change.layers]
    changes = _gaps([layer.change for layer in change.layers])
    deviations = _gaps([layer.deviation for layer in change.layers])
    _draw_line(panels[0], numbers, list(changes))
    low = np.maximum(changes - deviations, 0)
    panels[0].fill_between(numbers, low, changes + deviations, **_SHADE)
    panels[0].set_ylim(bottom=0)
    _draw_line(panels[1], numbers, [layer.cka for layer in change.layers])
    return _settle(panels, titles, look, change.title, 2, made=not given)
