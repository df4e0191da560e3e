"""Score against depth: what a head reads out when it sees only the first layers (P-32, Fig. 4).

`plot_points` draws it as heatmaps, with a row per head or point, such as each attention head.

What curves are held against, where the records hold it: guesses, and the same on random weights.

A guess is a baseline without features (the majority, a lexicon that memorised train), which is a
level line. A random version of a model, as ``extract --random-init`` makes it, has a curve by depth
or, where it was trained at full depth alone, a level line.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator

from probekit.base.layers import POINTS, ReadPoint, point_of
from probekit.errors import RecordError
from probekit.plots import heatmap
from probekit.plots.curves import CurveStyle, draw_band, layer_axis
from probekit.plots.naming import choice_text, runs_text
from probekit.plots.panels import Panel, PanelFigure, finish, panel_figure, split_panels
from probekit.plots.style import PLAIN, Given, Look, refuse_many, styled
from probekit.results.comparison import BestDepth, best_depth, noise_text
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import MARK, marks
from probekit.results.summaries.grouping import BASELINES, grouped, key_of
from probekit.results.summaries.interval import Interval, interval
from probekit.results.summaries.scored import SCORE_OF, Scored, shown
from probekit.results.summaries.wording import metric_text, model_text

_DASHES: Mapping[str, Any] = {
    "majority": (0, (6, 2)),
    "memorised": (0, (6, 2, 1, 2)),
    "all labels": (0, (2, 2)),
    "random weights, in the curve's colour": (0, (1, 1.4)),
}
_RANDOM = [*_DASHES][-1]
"""What curves are held against, as the legend says it, and the dashes of its lines."""

_GREY = "#666666"
_SAME_TASK = ("task", "label", "metric", "shots", "fraction")
_SAME_RUN = ("head", "decoder", "normalize", "pooling", "options", *_SAME_TASK)
_RANDOM_NAME = re.compile(r"(.+)-random\d+")


def original_model(model: str) -> str | None:
    """Return the last part of the name of the model that a model with random weights stands for.

    None is a model with weights of its own.
    """
    match = _RANDOM_NAME.fullmatch(model_text(model))
    return match[1] if match else None


@dataclass
class References:
    """The records that curves are held against, and the legend's entries of those drawn."""

    guesses: Sequence[Record]
    random: Sequence[Record]
    drawn: dict[str, Line2D] = field(default_factory=dict)

    def draw(
        self, axes: Axes, panel: Panel, drawn: PanelFigure, split: Scored, tops: Mapping[str, int]
    ) -> None:
        """Draw what the curves of a panel are held against.

        A guess that all curves share is one grey line; else a line has its curve's colour.

        Args:
            axes: of the panel.
            panel: whose curves have it.
            drawn: the figure.
            split: whose scores are drawn.
            tops: what depths are divided by, per model.
        """
        for kind, dashes in _DASHES.items():
            scores = {
                curve: self._scores(kind, members[0], split)
                for curve, members in panel.curves.items()
            }
            alike = kind != _RANDOM and len({str(each) for each in scores.values()}) == 1
            for curve, means in list(scores.items())[: 1 if alike else None]:
                colour = _GREY if alike else drawn.styles[curve].colour
                options = {"linestyle": dashes, "linewidth": 1.0, "zorder": 1.8}
                factor, top = panel.scale.factor, tops[panel.curves[curve][0].model]
                points = {n / top: factor * mean for n, mean in means.items() if n is not None}
                if points:
                    axes.plot(list(points), list(points.values()), color=colour, **options)
                elif means:
                    axes.axhline(factor * means[None], color=colour, **options)
                if means:
                    self.drawn[kind] = Line2D([], [], color=_GREY, label=kind, **options)

    def _scores(self, kind: str, like: Record, split: Scored) -> dict[int | None, float]:
        """Return the mean by depth of what a curve is held against; None is no depth of its own."""
        if kind == _RANDOM:
            random = [r for r in self.random if original_model(r.model) == model_text(like.model)]
            held = [record for record in random if _same(record, like, _SAME_RUN)]
        else:
            guesses = [record for record in self.guesses if record.head == kind]
            held = [record for record in guesses if _same(record, like, _SAME_TASK)]
        held = [record for record in held if getattr(record, SCORE_OF[split]) is not None]
        means = {}
        for (depth,), group in grouped(held, ["depth"]).items():
            by_seed = {record.seed: getattr(record, SCORE_OF[split]) for record in group}
            means[depth] = interval(by_seed.values()).mean
        return means


def split_off(records: Sequence[Record]) -> tuple[list[Record], References]:
    """Return the records that are curves of their own, and those that curves are held against.

    Records of a model with random weights are curves where the model itself has none.
    """
    trained = {model_text(record.model) for record in records if record.head not in BASELINES}
    curves, guesses, random = [], [], []
    for record in records:
        if record.head in BASELINES:
            guesses.append(record)
        elif original_model(record.model) in trained:
            random.append(record)
        else:
            curves.append(record)
    return curves, References(guesses, random)


def _same(record: Record, other: Record, names: Sequence[str]) -> bool:
    return key_of(record, names) == key_of(other, names)


_BROAD = 6.0  # width of the pale line under the depths within noise of the best, points
_PALE: dict[str, Any] = {
    "alpha": 0.45,
    "linewidth": _BROAD,
    "solid_capstyle": "round",
    "zorder": 2.5,
}
_RING: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 8,
    "markerfacecolor": "none",
    "markeredgewidth": 1.0,
    "zorder": 4,
}


@styled
def plot_depth(
    records: Sequence[Record],
    split: Scored | None = None,
    *,
    overlay: Sequence[str] = (),
    relative: bool = False,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Draw the score against the truncated depth, one curve per head and normalisation.

    Scores are the best ones on dev, or those of the same checkpoints on test; panels of one metric
    share their y axis. A ring marks the depth of each curve that is best on dev, whatever split is
    drawn; a pale line runs under the depths within noise of it (``comparison.best_depth``). Bands
    are 95 % intervals (`mean_score`), and hollow markers stand for runs with a trouble. Where the
    records hold them, lines show what a curve is held against: the majority, a lexicon, and the
    same head on random weights.

    Args:
        records: records; of those that are not of a truncated depth, baselines alone are drawn.
        split: whose scores; None is test where all the records have one, else dev.
        overlay: what the curves of a panel are: ``model``, ``task``, ``head``, or several; heads
            if empty.
        relative: divide layers by the number of blocks of their model, that is by the largest layer
            that any of its records read.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        UnknownNameError: there is no such split, or no such thing to overlay.
        OptionError: the axes do not fit the panels.
        RecordError: no record has such scores, there are fewer than two depths, or a point
            would average over more than seeds.
    """
    tops = _tops(records) if relative else {record.model: 1 for record in records}
    records, references = split_off(records)
    records = [record for record in records if record.depth is not None]
    records, split = shown(records, split)
    if len({record.depth for record in records}) < 2:
        raise RecordError(
            "a depth curve needs records of at least two depths; run `probekit depth` first."
        )
    panels = split_panels(records, by=["shots"], along=["depth"], overlay=overlay)
    drawn = panel_figure(panels, split, ax=ax, look=look)
    curves = []
    best_of_all: list[BestDepth] = []
    for axes, panel in drawn.panels:
        best = {name: best_depth(members) for name, members in panel.curves.items()}
        best_of_all += best.values()
        curves.append(_draw_panel(axes, panel, drawn, split, best, tops))
        references.draw(axes, panel, drawn, split, tops)
        layers = [record.depth for record in panel.records if record.depth is not None]
        if relative:
            axes.set_xlabel("layer / number of blocks (0 = emb)")
            axes.set_xlim(-0.03, 1.03)
            axes.xaxis.set_major_locator(MultipleLocator(0.25))
        else:
            layer_axis(axes, layers)
    within = f"within noise of it ({noise_text(best_of_all)})"
    phrases = [
        Line2D([], [], color=_GREY, label="best depth on dev", **_RING),
        Line2D([], [], color=_GREY, label=within, **_PALE),
    ]
    finish(drawn, curves, phrases=[*phrases, *references.drawn.values()])
    return drawn.figure


def _tops(records: Sequence[Record]) -> dict[str, int]:
    """Return the number of blocks of every model, as far as its records show; at least one."""
    tops: dict[str, int] = {}
    for record in records:
        tops[record.model] = max(
            tops.get(record.model, 1),
            record.depth or 0,
            *(point_of(layer)[1] for layer in record.layers),
        )
    return tops


def _draw_panel(
    axes: Axes,
    panel: Panel,
    drawn: PanelFigure,
    split: Scored,
    best: Mapping[str, BestDepth],
    tops: Mapping[str, int],
) -> list[dict[float, Interval]]:
    """Draw the curves of a panel; return them."""
    curves = []
    for order, (name, curve) in enumerate(panel.score_curves("depth", split).items()):
        style, top = drawn.styles[name], tops[panel.curves[name][0].model]
        placed = {depth / top: point for depth, point in curve.items()}
        troubles = {depth / top: wrong for depth, wrong in panel.troubles(name, "depth").items()}
        draw_band(axes, placed, style, panel.scale, order, len(panel.curves), troubles)
        _mark_best(axes, curve, best[name], style, top)
        curves.append(placed)
    return curves


def _mark_best(
    axes: Axes, curve: Mapping[float, Interval], best: BestDepth, style: CurveStyle, top: int
) -> None:
    """Put a ring around the best depth, and a pale line under those within noise of it.

    A depth without neighbours has a pale dot.
    """
    axes.plot([best.best / top], [curve[best.best].mean], color=style.colour, **_RING)
    for run in best.runs:
        means = [curve[depth].mean for depth in run]
        alone = {"marker": "o", "markersize": _BROAD, "markeredgewidth": 0} if len(run) == 1 else {}
        axes.plot([depth / top for depth in run], means, color=style.colour, **_PALE | alone)


@styled
def plot_points(
    records: Sequence[Record], split: Scored | None = None, *, ax: Given = None, look: Look = PLAIN
) -> Figure:
    """Draw the score of every head and point at every depth, as cells whose colour is the score.

    Args:
        records: those without a truncated depth, and baselines, are left out.
        split: whose scores; None is test where all the records have one, else dev.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        UnknownNameError: there is no such split.
        OptionError: the axes do not fit the panels.
        RecordError: no record has a depth, a cell would average over more than seeds, or there are
            too many rows or panels.
    """
    held = [r for r in records if r.depth is not None and r.head not in BASELINES]
    if not held:
        raise RecordError("no record is of a depth; run `probekit depth` with --point first.")
    held, split = shown(held, split)
    panels = split_panels(held, by=["shots"], along=["depth"])
    rows = [members for panel in panels for members in panel.curves.values()]
    refuse_many(len(rows), heatmap.MAX_ROWS, "rows", choice_text(rows))
    grids = [_grid(panel, split, numbers=len(rows) <= heatmap.MANY_ROWS) for panel in panels]
    scores = np.concatenate([grid.values.ravel() for grid in grids])
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    metrics = dict.fromkeys(f"{split} {metric_text(panel.metric)}" for panel in panels)
    return heatmap.heatmap_figure(
        grids,
        [panel.title for panel in panels],
        ", ".join(metrics),
        heatmap.Colours(heatmap.COLOUR_MAP, Normalize(low, high)),
        notes=runs_text([cell for row in rows for cell in grouped(row, ["depth"]).values()]),
        decimals=1,
        ax=ax,
        look=look,
    )


def _grid(panel: Panel, split: Scored, *, numbers: bool) -> heatmap.Grid:
    """Return the scores of a panel, points in their own order, attention heads by number."""
    curves = panel.score_curves("depth", split)
    points = {name: _point(members[0]) for name, members in panel.curves.items()}
    order = sorted(curves, key=lambda name: (panel.curves[name][0].head, *_sort_key(points[name])))
    means = [{int(n): cell.mean for n, cell in curves[name].items()} for name in order]
    alone = len(set(points.values())) == len(points)  # so a point is name enough
    named = [
        f"{points[name]}{f' {MARK}' if marks(panel.curves[name]) else ''}" if alone else name
        for name in order
    ]
    return heatmap.Grid(named, heatmap.layer_values(means, max(map(max, means))), numbers=numbers)


def _point(record: Record) -> ReadPoint:
    return ReadPoint.parse(record.spec.get("point"))


def _sort_key(point: ReadPoint) -> tuple[int, int]:
    head = -1 if point.attention_head is None else point.attention_head
    return [*POINTS].index(point.names[-1]), head
