"""What the predictions of every depth say: overthinking, and early exit; a panel per curve."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from probekit.metrics import scale_of
from probekit.plots.curves import layer_axis
from probekit.plots.naming import choice_text, diverged_text, one_last_name, title_text
from probekit.plots.panels import (
    MAX_PANELS,
    Panel,
    PanelFigure,
    explain,
    panel_figure,
    share_scores,
)
from probekit.plots.style import PLAIN, Given, Look, note_mark, refuse_many, styled
from probekit.results.comparison.resampling import Bootstrap, Estimate
from probekit.results.overthinking import DepthCurve, EarlyExit, depth_curves
from probekit.results.overthinking.depth_predictions import read_reported
from probekit.results.overthinking.early_exit import (
    TEXTS,
    TOLERANCE,
    check_tolerance,
    measure_exits,
)
from probekit.results.overthinking.shares import SharesByDepth, shares_by_depth
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import marks
from probekit.results.summaries.interval import Drawn, drawn_text
from probekit.results.summaries.wording import metric_text, seeds_text

Line = Mapping[str, Any]
"""Keyword arguments of ``Axes.plot``."""

SAMPLES = 2_000
"""Bootstrap samples of the intervals."""

_MARKED: Line = {"markeredgecolor": "white", "markeredgewidth": 0.4, "linewidth": 1.2}
_RED = "#D55E00"
_SHARES: Mapping[str, Line] = {
    "right, of all rows": {**_MARKED, "color": "#000000", "marker": "o", "markersize": 3.8},
    "right, of the rows that the last depth has wrong": {
        **_MARKED, "color": _RED, "marker": "^", "markersize": 4.6,
    },
    "expected there by the last depth's own probabilities": {
        "color": _RED, "linestyle": (0, (4, 1.5)), "linewidth": 1.0,
    },
}  # fmt: skip
_SURE = "filled: significantly more than expected (5 %, Holm over the depths)"
_BAND = 0.16  # opacity of the band of an estimate

_RULES: Mapping[str, Line] = {
    "confidence": {"color": "#0072B2", "marker": "s", "markersize": 3.5},
    "patience": {"color": _RED, "marker": "D", "markersize": 3.5},
    "fixed": {"color": "#8C8C8C", "marker": "o", "markersize": 3.8, "linestyle": (0, (1.3, 1.1))},
    "last": {"color": "#000000", "marker": "X", "markersize": 6.0, "linestyle": "none"},
    "oracle": {"color": "#009E73", "marker": "*", "markersize": 8.0, "linestyle": "none"},
}
_CHOSEN: Line = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "linestyle": "none"}
_MARKERS = 8  # of a line with many thresholds


@styled
def plot_overthinking(
    records: Sequence[Record],
    split: str | None = None,
    *,
    samples: int = SAMPLES,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Draw what each depth has right, and what an earlier one has right where the last is wrong.

    A dashed line has what the last depth's calibrated probabilities give to the classes that the
    earlier depth names there (`results.overthinking.expected`): above it, the depth knows what the
    last one has lost. Marks are filled where that is sure. Bands are 95 % bootstrap intervals.

    Args:
        records: of ``probekit depth``, with predictions.
        split: ``test`` or ``dev``; None is test where all have one, else dev.
        samples: bootstrap samples.
        ax: axes of your own, one per head, model and task.
        look: width, title and font size.

    Raises:
        RecordError: depths, predictions or classes are missing, or panels are too many.
        MissingFileError: a side file of predictions does not exist.
        OptionError: the axes do not fit the panels.
    """
    curves = depth_curves(records)
    panels = _panels(curves)
    reported = [read_reported(curve, split)[0] for curve in curves]
    labels = [f"% of {predictions.split} {predictions.unit}" for predictions in reported]
    drawn = panel_figure(panels, labels=labels, ax=ax, look=look)
    for (axes, _), predictions in zip(drawn.panels, reported, strict=True):
        _draw_shares(axes, shares_by_depth(predictions, Bootstrap(samples=samples)))
    entries = [Line2D([], [], label=name, **line) for name, line in _SHARES.items()]
    _explain(drawn, curves, entries, [predictions.groups.drawn for predictions in reported], _SURE)
    return drawn.figure


def _draw_shares(axes: Axes, shares: SharesByDepth) -> None:
    whole, wrong, expected = _SHARES.items()
    depths = shares.depths[:-1]
    _draw_estimates(axes, *whole, shares.depths, shares.right)
    known = [depth.right for depth in shares.earlier]
    _draw_estimates(axes, wrong[0], {**wrong[1], "marker": "none"}, depths, known)
    _draw_estimates(
        axes, *expected, depths, [depth.expected for depth in shares.earlier], band=False
    )
    for depth in shares.earlier:
        face = {"markerfacecolor": _RED if depth.knows else "white", "markeredgecolor": _RED}
        axes.plot([depth.depth], [100 * depth.right.value], **{**wrong[1], **face})
    layer_axis(axes, shares.depths)


def _draw_estimates(
    axes: Axes,
    name: str,
    line: Line,
    places: Sequence[float],
    estimates: Sequence[Estimate],
    *,
    band: bool = True,
) -> None:
    """Draw percentages, with a band between the ends of their intervals."""
    values, low, high = (
        [100 * getattr(estimate, end) for estimate in estimates] for end in ("value", "low", "high")
    )
    axes.plot(places, values, **line)
    if band:
        options = {"color": line["color"], "alpha": _BAND, "linewidth": 0}
        axes.fill_between(places, low, high, **options)
    for at, value, *ends in zip(places, values, low, high, strict=True):
        _note(axes, name, at, value, ends)


def _note(axes: Axes, name: str, x: float, y: float, ends: Sequence[float] = ()) -> None:
    low, high = ends or (None, None)
    note_mark(axes, x, y, {"curve": name, "x": x, "y": y, "low": low, "high": high})


@styled
def plot_exit(
    records: Sequence[Record],
    split: str | None = None,
    *,
    tolerance: float = TOLERANCE,
    samples: int = SAMPLES,
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
        samples: bootstrap samples.
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
    panels = _panels(curves)
    pairs = [read_reported(curve, split) for curve in curves]
    labels = [
        f"{predictions.split} {metric_text(predictions.scorer.name)}" for predictions, _ in pairs
    ]
    drawn = panel_figure(panels, labels=labels, ax=ax, look=look)
    for (axes, _), pair in zip(drawn.panels, pairs, strict=True):
        _draw_exits(axes, measure_exits(*pair, Bootstrap(samples=samples), tolerance))
    share_scores(drawn)
    entries = [
        Line2D([], [], label=TEXTS[name], **{**_MARKED, **line}) for name, line in _RULES.items()
    ]
    ring = Line2D([], [], color="#666666", label="chosen threshold", **_CHOSEN)
    _explain(
        drawn, curves, [*entries, ring], [predictions.groups.drawn for predictions, _ in pairs]
    )
    return drawn.figure


def _draw_exits(axes: Axes, early_exit: EarlyExit) -> None:
    factor = scale_of(early_exit.metric).factor
    for curve in early_exit.curves:
        every = max(1, len(curve.layers) // _MARKERS)
        scores = [factor * score for score in curve.scores]
        axes.plot(curve.layers, scores, markevery=every, **{**_MARKED, **_RULES[curve.rule]})
        for at, score in zip(curve.layers, scores, strict=True):
            _note(axes, TEXTS[curve.rule], at, score)
    for point in early_exit.points:
        style = _RULES[point.rule]
        x, y = point.layers.value, factor * point.score.value
        low, high = factor * point.score.low, factor * point.score.high
        alone = point.rule in ("last", "oracle")
        kind = style if alone else {"color": style["color"], **_CHOSEN}
        axes.plot([x], [y], zorder=4, clip_on=False, **kind)
        bars: Line = {"color": style["color"], "linewidth": 0.8, "alpha": 0.6, "zorder": 2}
        axes.plot([x, x], [low, high], **bars)
        axes.plot([point.layers.low, point.layers.high], [y, y], **bars)
        _note(axes, TEXTS[point.rule] + ("" if alone else ": chosen"), x, y, [low, high])
    axes.set_xlabel("mean layers used (0 = emb)")
    axes.set_xlim(-0.02 * early_exit.depths[-1], 1.03 * early_exit.depths[-1])


def _panels(curves: Sequence[DepthCurve]) -> list[Panel]:
    """Return a panel for each curve, with the records of its probes.

    Raises:
        RecordError: there are too many.
    """
    choice = choice_text(curve.records for curve in curves)
    refuse_many(len(curves), MAX_PANELS, "panels (one per head, model, task, ...)", choice)
    firsts = [curve.records[0] for curve in curves]
    full = one_last_name(firsts)
    panels = []
    for curve, record in zip(curves, firsts, strict=True):
        whose = {"model": record.model, "task": record.task, "label": record.label}
        title = f"{title_text(whose, full)}, {curve.name}"
        panels.append(Panel(title, record.metric, {curve.name: curve.records}))
    return panels


def _explain(
    drawn: PanelFigure,
    curves: Sequence[DepthCurve],
    entries: Sequence[Line2D],
    over: Sequence[Drawn],
    also: str = "",
) -> None:
    """Put one legend below all panels; its title says what intervals and lines are over.

    A curve is measured over all depths, so that what is wrong with a run marks no point of it.
    """
    seeds = seeds_text(len(run.records) for curve in curves for run in curve.probes.values())
    wrong = marks(drawn.records)
    parts = [
        f"95 % intervals over {drawn_text(over)}",
        seeds + diverged_text(drawn.records),
        f"some runs: {', '.join(wrong)}" if wrong else "",
        also,
    ]
    explain(drawn, entries, [], "; ".join(filter(None, parts)))
