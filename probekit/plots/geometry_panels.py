"""The geometry of layers, beside what a probe reads out at each depth."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from probekit.base.registry import choose
from probekit.errors import OptionError, RecordError
from probekit.metrics import scale_of
from probekit.plots.colours import COLOUR_MAP
from probekit.plots.curves import draw_band, layer_axis, score_axis
from probekit.plots.naming import title_text
from probekit.plots.panels import TASK
from probekit.plots.style import COLUMN_WIDTH, RC, curve_styles, new_figure
from probekit.results.layer_geometry import Geometry, LayerGeometry
from probekit.results.record import Record
from probekit.results.summaries.grouping import series, varying
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.scored import SCORE_OF, Scored, score_curve, shown
from probekit.results.summaries.wording import metric_text, model_text

_HEIGHT, _LEGEND_LINE = 1.25, 0.15  # of a row of panels and of a line of the legend, inches
_COLOUR = "#0072B2"
_TICK = 4  # layers between labels of the heatmap, at most about as many labels as that
SCORE = "score"
_NORM = "row norm (mean ± SD)"

_CURVES: Mapping[str, tuple[str, Callable[[LayerGeometry], float | None]]] = {
    "rank": ("effective rank", lambda layer: layer.effective_rank),
    "anisotropy": ("anisotropy (mean cosine)", lambda layer: layer.anisotropy),
    "dimension": ("intrinsic dimension", lambda layer: layer.intrinsic_dimension),
    "norm": (_NORM, lambda layer: layer.norm),
}
PANELS = ("cka", *_CURVES, SCORE)
"""Names of the panels, in their order; the last one needs records."""


@matplotlib.rc_context(RC)
def plot_geometry(
    found: Geometry,
    records: Sequence[Record] = (),
    *,
    split: Scored | None = None,
    panel: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw what was measured of the layers, and the scores of probes over the same axis.

    The panels are linear CKA between layers, effective rank, anisotropy, intrinsic dimension and
    row norms; stars mark layers with massive activations. What is undefined leaves a gap.

    Args:
        found: what ``probekit.geometry`` or ``load_geometry`` returned.
        records: of probes by depth of the same model and task; others are left out.
        split: whose scores; None is test where all the records have one, else dev.
        panel: one of ``PANELS`` alone; None is all of them.
        ax: where to draw ``panel``; None is a new figure.

    Raises:
        UnknownNameError: there is no such panel or split.
        OptionError: ``ax`` without a panel.
        RecordError: records were given, and none is of a depth of this model; or there are none
            for the panel of scores.
    """
    if ax is not None and panel is None:
        raise OptionError(f"ax is one panel, so say which: panel= one of {', '.join(PANELS)}.")
    curves = _ProbeCurves(found, records, split) if records else None
    draw = _drawers(found, curves)
    if panel is not None:
        choose("panel", panel, dict.fromkeys(PANELS))
        if panel not in draw:
            raise RecordError("the panel of scores needs records of probes at every depth.")
        axes = new_figure(COLUMN_WIDTH, 2.2).add_subplot() if ax is None else ax
        draw[panel](axes)
        figure = axes.get_figure(root=True)
        assert figure is not None
        return figure
    rows = -(-len(draw) // 2)
    handles = [] if curves is None else curves.handles()
    figure = new_figure(COLUMN_WIDTH, rows * _HEIGHT + 0.2 + len(handles) * _LEGEND_LINE)
    places = list(figure.subplots(rows, 2, squeeze=False).flat)
    for axes, one in zip(places, draw.values(), strict=False):
        one(axes)
    for axes in places[len(draw) :]:
        axes.remove()
    for axes in places[: len(draw) - 2]:  # all but the lowest of each column
        axes.set_xlabel("")
    drawn = (
        f"{found.rows:,} of {found.of_rows:,}" if found.rows < found.of_rows else f"{found.rows:,}"
    )
    name = f"{model_text(found.model)}, {found.task} {found.split}: {drawn} rows of {found.array}"
    figure.suptitle(title_text(name, COLUMN_WIDTH), fontsize=RC["axes.titlesize"])
    if handles:
        figure.legend(handles=handles, loc="outside lower center", frameon=False)
    return figure


def _drawers(found: Geometry, curves: "_ProbeCurves | None") -> dict[str, Callable[[Axes], None]]:
    """Return what draws each panel, by name."""
    draw: dict[str, Callable[[Axes], None]] = {"cka": partial(_draw_similarity, found)}
    for name, (label, value) in _CURVES.items():
        draw[name] = partial(_draw_curve, found, label, value)
    if curves is not None:
        draw[SCORE] = curves.draw
    return draw


def _draw_similarity(found: Geometry, axes: Axes) -> None:
    """Draw CKA as a heatmap of layers by layers, from 0 to 1."""
    values = np.array([[math.nan if v is None else v for v in row] for row in found.cka])
    numbers = [layer.layer for layer in found.layers]
    edges = np.arange(len(numbers) + 1) - 0.5
    mesh = axes.pcolormesh(
        edges, edges, np.ma.masked_invalid(values), cmap=COLOUR_MAP, vmin=0, vmax=1
    )
    axes.set_aspect("equal")
    axes.set_facecolor("#e4e4e4")
    axes.spines[:].set_visible(False)
    every = max(1, round(len(numbers) / _TICK))
    shown_at = list(range(0, len(numbers), every))
    labels = [str(numbers[place]) for place in shown_at]
    axes.set_xticks(shown_at, labels)
    axes.set_yticks(shown_at, labels)
    axes.set_xlabel("layer (0 = emb)")
    _title(axes, "linear CKA")
    figure = axes.get_figure()
    assert figure is not None
    bar = figure.colorbar(mesh, ax=axes, fraction=0.05, pad=0.04, ticks=[0, 0.5, 1])
    for spine in bar.ax.spines.values():
        spine.set_visible(False)


def _title(axes: Axes, text: str) -> None:
    """Say above a panel what it shows: beside small ones there is no room."""
    axes.set_title(text, loc="left", fontsize=RC["ytick.labelsize"])


def _draw_curve(
    found: Geometry, label: str, value: Callable[[LayerGeometry], float | None], axes: Axes
) -> None:
    """Draw one number over the layers, with stars at layers with massive activations."""
    numbers = [layer.layer for layer in found.layers]
    values = [value(layer) for layer in found.layers]
    gaps = [math.nan if one is None else one for one in values]
    axes.plot(numbers, gaps, color=_COLOUR, linewidth=1.2, marker="o", markersize=2.6)
    if label == _NORM:
        low, high = (
            [layer.norm + sign * layer.norm_deviation for layer in found.layers] for sign in (-1, 1)
        )
        axes.fill_between(numbers, low, high, color=_COLOUR, alpha=0.16, linewidth=0)
        massive = [layer for layer in found.layers if layer.massive]
        places, norms = [one.layer for one in massive], [one.norm for one in massive]
        axes.plot(places, norms, "*", color="#D55E00", markersize=5)
        label = "row norm ± SD (\u2605 massive)" if massive else label
    _title(axes, label)
    axes.grid(axis="y")
    layer_axis(axes, numbers)


class _ProbeCurves:
    """Scores of probes by depth, of the model and task that were measured."""

    def __init__(self, found: Geometry, records: Sequence[Record], split: Scored | None) -> None:
        """Choose the records.

        Raises:
            RecordError: none is of a depth of this model and task, or they have several metrics.
        """
        own = [one for one in records if (one.model, one.task) == (found.model, found.task)]
        own = [one for one in own if one.depth is not None and one.depth <= found.layers[-1].layer]
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
        self._metric, self._scale = own[0].metric, scale_of(own[0].metric)
        self._layers = [layer.layer for layer in found.layers]
        field, factor = SCORE_OF[self._split], self._scale.factor
        self._curves: dict[str, dict[float, Interval]] = {
            name: score_curve(members, "depth", field, name, factor)
            for name, members in series(own, given=[*TASK, "depth"]).items()
        }
        self._styles = curve_styles(list(self._curves))

    def draw(self, axes: Axes) -> None:
        """Draw mean scores by depth with their 95 % intervals over seeds."""
        for order, (name, curve) in enumerate(self._curves.items()):
            draw_band(axes, curve, self._styles[name], order, self._scale, ())
        score_axis(axes, self._scale, self._curves.values())
        _title(axes, f"{self._split} {metric_text(self._metric)}")
        axes.grid(axis="y")
        layer_axis(axes, self._layers)

    def handles(self) -> list[Line2D]:
        """Return the entries of the legend."""
        return [
            Line2D([], [], label=f"probe: {name}", **self._styles[name].line_options())
            for name in self._curves
        ]
