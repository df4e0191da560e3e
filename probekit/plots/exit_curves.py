"""Early exit: score against the mean layers that a sentence uses, a line per rule."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probekit.metrics import scale_of
from probekit.plots.look import PLAIN, Given, Look, styled
from probekit.plots.measured_panels import Line, explain, panels_of
from probekit.plots.panels import panel_figure, share_scores
from probekit.results.comparison.resampling import Bootstrap
from probekit.results.overthinking import EarlyExit, depth_curves
from probekit.results.overthinking.depth_predictions import read_reported
from probekit.results.overthinking.early_exit import (
    TEXTS,
    TOLERANCE,
    check_tolerance,
    measure_exits,
)
from probekit.results.record import Record
from probekit.results.summaries.wording import metric_text

_COMMON: Line = {"linewidth": 1.2, "markeredgecolor": "white", "markeredgewidth": 0.4}
_LINES: Mapping[str, Line] = {
    "confidence": {"color": "#0072B2", "marker": "s", "markersize": 3.5},
    "patience": {"color": "#D55E00", "marker": "D", "markersize": 3.5},
    "fixed": {"color": "#8C8C8C", "marker": "o", "markersize": 3.8, "linestyle": (0, (1.3, 1.1))},
    "last": {"color": "#000000", "marker": "X", "markersize": 6.0, "linestyle": "none"},
    "oracle": {"color": "#009E73", "marker": "*", "markersize": 8.0, "linestyle": "none"},
}
_CHOSEN: Line = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "linestyle": "none"}
_MARKERS = 8  # of a line with many thresholds


@styled
def plot_exit(
    records: Sequence[Record],
    split: str | None = None,
    *,
    tolerance: float = TOLERANCE,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Draw the score of early exit against the mean layers used, by every rule.

    A line goes through all thresholds of a rule; a ring marks the one that was chosen for a loss
    of at most ``tolerance`` in score, on dev or on the other half of the split. Crosses are their
    95 % bootstrap intervals. Panels of one metric share their y axis. One
    depth for all is what the other rules must be better than; the oracle leaves at the first depth
    that is right.

    Args:
        records: of ``probekit depth``.
        split: ``test`` or ``dev``; None is test where all have one, else dev.
        tolerance: loss of score against the last depth that is allowed where thresholds are chosen.
        ax: axes of your own, one per head, model and task.
        look: width, title and font size.

    Raises:
        RecordError: depths, predictions, probabilities or classes are missing, or panels are too
            many.
        MissingFileError: a side file of predictions does not exist.
        OptionError: the axes do not fit the panels, or a tolerance below 0 or above 1.
    """
    check_tolerance(tolerance)
    curves = depth_curves(records)
    panels = panels_of(curves)
    pairs = [read_reported(curve, split) for curve in curves]
    entries = [dict(_COMMON) | {"label": TEXTS[name]} | dict(line) for name, line in _LINES.items()]
    ring = {"color": "#666666", "label": "chosen threshold", **_CHOSEN}
    labels = [f"{one.split} {metric_text(one.scorer.name)}" for one, _ in pairs]
    drawn = panel_figure(panels, labels=labels, ax=ax, look=look)
    for (axes, _), pair in zip(drawn.panels, pairs, strict=True):
        _draw(axes, measure_exits(*pair, Bootstrap(samples=2_000), tolerance))
    share_scores(drawn)
    explain(drawn, curves, [*entries, ring], [one.groups.drawn for one, _ in pairs])
    return drawn.figure


def _draw(axes: Axes, found: EarlyExit) -> None:
    factor = scale_of(found.metric).factor
    for curve in found.curves:
        every = max(1, len(curve.layers) // _MARKERS)
        scores = [factor * score for score in curve.scores]
        style = dict(_COMMON) | dict(_LINES[curve.rule])
        axes.plot(curve.layers, scores, markevery=every, **style)
    for point in found.points:
        style = dict(_LINES[point.rule])
        x, y = point.layers.value, factor * point.score.value
        kind = style if point.rule in ("last", "oracle") else {"color": style["color"], **_CHOSEN}
        axes.plot([x], [y], zorder=4, clip_on=False, **kind)
        bars: Line = {"color": style["color"], "linewidth": 0.8, "alpha": 0.6, "zorder": 2}
        axes.plot([x, x], [factor * point.score.low, factor * point.score.high], **bars)
        axes.plot([point.layers.low, point.layers.high], [y, y], **bars)
    axes.set_xlabel("mean layers used (0 = emb)")
    axes.set_xlim(-0.02 * found.depths[-1], 1.03 * found.depths[-1])
