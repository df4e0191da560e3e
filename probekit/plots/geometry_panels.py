"""The geometry of layers, beside what a probe reads out at each depth."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.plots.colours import COLOUR_MAP
from probekit.plots.curves import draw_band, layer_axis, score_axis
from probekit.plots.look import PLAIN, Given, Look, given_axes, styled
from probekit.plots.naming import fitted_text
from probekit.plots.panels import (
    TASK,
    Panel,
    PanelFigure,
    add_legend,
    hollow_entries,
    width_of,
)
from probekit.plots.style import COLUMN_WIDTH, curve_styles, font_scale, new_figure
from probekit.results.layer_geometry import Geometry, LayerGeometry
from probekit.results.record import Record
from probekit.results.summaries.grouping import series, varying
from probekit.results.summaries.scored import Scored, shown
from probekit.results.summaries.wording import metric_text, model_text

_HEIGHT, _FLATTEST = 1.25, 0.62  # of a panel: inches, and least share of its width
_ALONE = 2.2  # height of a figure of one panel, inches
_NARROWEST = 1.6  # width of a panel, inches
_OVER = 0.15  # how far a title may reach beyond its panel, inches
_TITLE = 0.2  # height of a line of the figure's title, inches
_COLOUR = "#0072B2"
_TICK = 4  # layers between labels of the heatmap, at most about as many labels as that
SCORE = "score"
_RANK = "effective rank (covariance)"
_DIMENSION = "intrinsic dimension, 95 %"
_NORM = "row norm (mean ± SD)"

_CURVES: Mapping[str, tuple[str, Callable[[LayerGeometry], float | None]]] = {
    "rank": (_RANK, lambda layer: layer.effective_rank),
    "anisotropy": ("anisotropy (mean cosine)", lambda layer: layer.anisotropy),
    "dimension": (_DIMENSION, lambda layer: layer.intrinsic_dimension),
    "norm": (_NORM, lambda layer: layer.norm),
}
_BANDS: Mapping[str, Callable[[LayerGeometry], tuple[float | None, float | None]]] = {
    _DIMENSION: lambda layer: (layer.dimension_low, layer.dimension_high),
    _NORM: lambda layer: (layer.norm - layer.norm_deviation, layer.norm + layer.norm_deviation),
}
"""What is shaded around some of these."""

PANELS = ("cka", *_CURVES, SCORE)
"""Names of the panels, in their order; the last one needs records."""


@styled
def plot_geometry(
    found: Geometry,
    records: Sequence[Record] = (),
    *,
    split: Scored | None = None,
    panel: str | None = None,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Draw what was measured of the layers, and the scores of probes over the same axis.

    The panels are linear CKA between layers, effective rank, anisotropy, intrinsic dimension and
    row norms; stars mark layers with massive activations. What is undefined leaves a gap.

    Args:
        found: what ``probekit.geometry`` or ``load_geometry`` returned.
        records: of probes by depth of the same model and task; others are left out.
        split: whose scores; None is test where all the records have one, else dev.
        panel: one of ``PANELS`` alone; None is all of them.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        UnknownNameError: there is no such panel or split.
        OptionError: the axes do not fit the panels.
        RecordError: records were given, and none is of a depth of this model; or there are none
            for the panel of scores.
    """
    probes = _ProbeScores(found, records, split) if records else None
    draw = _drawers(found, probes)
    if panel is not None:
        choose("panel", panel, dict.fromkeys(PANELS))
        if panel not in draw:
            raise RecordError("the panel of scores needs records of probes at every depth.")
        draw = {panel: draw[panel]}
    given = given_axes(ax, list(draw), look, "choose one of these with panel=")
    places = given or _new_axes(len(draw), look)
    for axes, one in zip(places, draw.values(), strict=True):
        title = one(axes)
        _title(axes, title if len(draw) > 1 or look.title is None else look.title, len(draw))
    figure = places[0].get_figure(root=True)
    assert figure is not None
    if len(draw) > 1 and not given:
        _head(figure, places, _about(found) if look.title is None else look.title)
    if probes is not None and SCORE in draw:
        probes.explain(figure, places[-1], own=not given)
    return figure


def _title(axes: Axes, text: str, count: int) -> None:
    """Say above a panel what it shows, in smaller letters where there are several."""
    size = float(rcParams["axes.titlesize" if count == 1 else "ytick.labelsize"])
    axes.set_title(fitted_text(text, width_of(axes) + _OVER, size), loc="left", fontsize=size)


def _new_axes(count: int, look: Look) -> list[Axes]:
    """Return the axes of a new figure, in as many columns as its width has room for."""
    width = look.width or COLUMN_WIDTH
    columns = min(count, max(1, int(width / _NARROWEST)), 3)
    rows = -(-count // columns)
    least = _ALONE if count == 1 else _HEIGHT * font_scale()
    height = max(least, _FLATTEST * width / columns)
    figure = new_figure(width, rows * height)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in grid[count:]:
        unused.remove()
    return grid[:count]


def _head(figure: Figure, places: Sequence[Axes], title: str) -> None:
    """Put a title above all panels, and the name of the layer axis under the lowest alone."""
    columns = sum(axes.get_subplotspec().rowspan.start == 0 for axes in places)  # type: ignore[union-attr]
    for axes in places[:-columns]:
        axes.set_xlabel("")
    if not title:
        return
    size = float(rcParams["axes.titlesize"])
    text = fitted_text(title, figure.get_figwidth(), size)
    figure.suptitle(text, fontsize=size)
    lines = 1 + text.count("\n")
    figure.set_figheight(figure.get_figheight() + lines * _TITLE * font_scale())


def _about(found: Geometry) -> str:
    """Return what was measured."""
    of = f" of {found.of_rows:,}" if found.rows < found.of_rows else ""
    where = f"{model_text(found.model)}, {found.task} {found.split}"
    return f"{where}: {found.rows:,}{of} rows of {found.array}"


def _drawers(found: Geometry, probes: "_ProbeScores | None") -> dict[str, Callable[[Axes], str]]:
    """Return what draws each panel, and returns its title, by name."""
    draw: dict[str, Callable[[Axes], str]] = {"cka": partial(_draw_similarity, found)}
    for name, (label, value) in _CURVES.items():
        draw[name] = partial(_draw_curve, found, label, value)
    if probes is not None:
        draw[SCORE] = probes.draw
    return draw


def _draw_similarity(found: Geometry, axes: Axes) -> str:
    """Draw CKA as a heatmap of layers by layers, from 0 to 1."""
    values = np.array([[math.nan if v is None else v for v in row] for row in found.cka])
    numbers = [layer.layer for layer in found.layers]
    edges = np.arange(len(numbers) + 1) - 0.5
    mesh = axes.pcolormesh(
        edges, edges, np.ma.masked_invalid(values), cmap=COLOUR_MAP, vmin=0, vmax=1
    )
    axes.set_aspect("equal", anchor="W")
    axes.set_facecolor("#e4e4e4")
    axes.spines[:].set_visible(False)
    every = max(1, round(len(numbers) / _TICK))
    shown_at = list(range(0, len(numbers), every))
    labels = [str(numbers[place]) for place in shown_at]
    axes.set_xticks(shown_at, labels)
    axes.set_yticks(shown_at, labels)
    axes.set_xlabel("layer (0 = emb)")
    figure = axes.get_figure()
    assert figure is not None
    beside = axes.inset_axes((1.06, 0.0, 0.06, 1.0))
    figure.colorbar(mesh, cax=beside, ticks=[0, 0.5, 1])
    beside.spines[:].set_visible(False)
    return "linear CKA"


def _draw_curve(
    found: Geometry, label: str, value: Callable[[LayerGeometry], float | None], axes: Axes
) -> str:
    """Draw one number over the layers, with stars at layers with massive activations."""
    numbers = [layer.layer for layer in found.layers]
    values = [_gap(value(layer)) for layer in found.layers]
    axes.plot(numbers, values, color=_COLOUR, linewidth=1.2, marker="o", markersize=2.6)
    if label in _BANDS:
        bands = [_BANDS[label](layer) for layer in found.layers]
        low, high = ([_gap(band[end]) for band in bands] for end in range(2))
        axes.fill_between(numbers, low, high, color=_COLOUR, alpha=0.16, linewidth=0)
    if label == _NORM:
        massive = [layer for layer in found.layers if layer.massive]
        places, norms = [one.layer for one in massive], [one.norm for one in massive]
        axes.plot(places, norms, "*", color="#D55E00", markersize=5)
        label = "row norm ± SD (\u2605 massive)" if massive else label
    axes.grid(axis="y")
    layer_axis(axes, numbers)
    return label


def _gap(value: float | None) -> float:
    """Return a number, which is none where it is undefined: a gap in a curve."""
    return math.nan if value is None else value


class _ProbeScores:
    """Scores of probes by depth, of the model and task that were measured."""

    def __init__(self, found: Geometry, records: Sequence[Record], split: Scored | None) -> None:
        """Choose the records.

        Raises:
            RecordError: none is of a depth of this model and task, or they have several metrics.
        """
        own = [one for one in records if (one.model, one.task) == (found.model, found.task)]
        top = found.layers[-1].layer
        own = [one for one in own if one.depth is not None and one.depth <= top]
        own = [one for one in own if not one.trial]
        if not own:
            raise RecordError(
                f"none of {len(records)} records is of a depth of {found.model} on {found.task}; "
                "run `probekit depth` for it, or leave the records out."
            )
        own, self._split = shown(own, split)
        if len(varying(own, ["label", "metric"])) > 0:
            raise RecordError(
                "the records are of several labels or metrics, and there is one panel of scores; "
                "choose some, such as --where label=ner."
            )
        curves = series(own, given=[*TASK, "depth"])
        title = f"probes: {self._split} {metric_text(own[0].metric)}"
        self._panel = Panel(title, own[0].metric, curves)
        self._layers = [layer.layer for layer in found.layers]
        self._styles = curve_styles(list(curves))
        self._curves = self._panel.score_curves("depth", self._split)

    def draw(self, axes: Axes) -> str:
        """Draw mean scores by depth with their 95 % intervals over seeds."""
        panel = self._panel
        for order, (name, curve) in enumerate(self._curves.items()):
            hollow = panel.troubled(name, "depth")
            style, count = self._styles[name], len(self._curves)
            draw_band(axes, curve, style, order, panel.scale, hollow, count)
        score_axis([axes], panel.scale, self._curves.values())
        axes.grid(axis="y")
        layer_axis(axes, self._layers)
        return panel.title

    def explain(self, figure: Figure, axes: Axes, *, own: bool) -> None:
        """Put the legend below a figure that was made here, else inside the panel of scores."""
        hollow = hollow_entries([self._panel])
        drawn = PanelFigure(figure, [(axes, self._panel)], self._styles, hollow, own)
        drawn.note(self._curves.values())
        add_legend(drawn)
