"""Score against depth: what a head reads out when it sees only the first layers (P-32, Fig. 4).

What curves are held against, where the records hold it: guesses, and the same on random weights.

A guess is a baseline without features (the majority, a lexicon that memorised train), which is a
level line. A random version of a model, as ``extract --random-init`` makes it, has a curve by depth
or, where it was trained at full depth alone, a level line.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from probekit.errors import RecordError
from probekit.plots.curves import draw_band, layer_axis, relative_axis
from probekit.plots.look import PLAIN, Given, Look, styled
from probekit.plots.panels import (
    Panel,
    PanelFigure,
    add_legend,
    panel_figure,
    share_scores,
    split_panels,
)
from probekit.plots.style import CurveStyle
from probekit.results.comparison import BestDepth, best_depth, noise_text
from probekit.results.record import Record
from probekit.results.summaries.grouping import BASELINES, key_of
from probekit.results.summaries.interval import Interval, interval
from probekit.results.summaries.scored import SCORE_OF, Scored, shown
from probekit.results.summaries.wording import model_text

GUESS_DASHES: Mapping[str, Any] = {"majority": (0, (6, 2)), "memorised": (0, (6, 2, 1, 2))}
_RANDOM_DASHES: Any = (0, (1, 1.4))
_GREY = "#666666"
_SAME_TASK = ("task", "label", "metric", "shots", "fraction")
_SAME_RUN = ("head", "decoder", "normalize", "pooling", "options", *_SAME_TASK)
_RANDOM = re.compile(r"(.+)-random\d+")


def original_model(model: str) -> str | None:
    """Return the last part of the name of the model that a model with random weights stands for.

    None is a model with weights of its own.
    """
    found = _RANDOM.fullmatch(model_text(model))
    return found[1] if found else None


@dataclass
class References:
    """The records of baselines, and the legend's entries of those that were drawn."""

    guesses: Sequence[Record]
    random: Sequence[Record]
    drawn: dict[str, Line2D] = field(default_factory=dict)

    def draw(
        self,
        axes: Axes,
        panel: Panel,
        styles: Mapping[str, CurveStyle],
        split: Scored,
        tops: Mapping[str, int],
    ) -> None:
        """Draw what the curves of a panel are held against.

        Args:
            axes: of the panel.
            panel: whose curves have it.
            styles: of the curves; what only one of several is held against has its colour.
            split: whose scores are drawn.
            tops: what depths are divided by, per model.
        """
        for name in GUESS_DASHES:
            levels = {
                curve: level
                for curve, members in panel.curves.items()
                if (level := self._guess(name, members[0], split)) is not None
            }
            alike = len(set(levels.values())) == 1 and len(levels) == len(panel.curves)
            for curve, level in list(levels.items())[: 1 if alike else None]:
                colour = _GREY if alike else styles[curve].colour
                self._level(axes, name, level * panel.scale.factor, colour)
        for curve, members in panel.curves.items():
            self._draw_random(axes, members[0], styles[curve].colour, panel, split, tops)

    def _guess(self, name: str, like: Record, split: Scored) -> float | None:
        found = {
            record.seed: getattr(record, SCORE_OF[split])
            for record in self.guesses
            if record.head == name and _same(record, like, _SAME_TASK)
        }
        return _mean(found.values())

    def _level(self, axes: Axes, name: str, level: float, colour: str) -> None:
        axes.axhline(level, color=colour, **_line_options(GUESS_DASHES[name]))
        self._explain(name, name, GUESS_DASHES[name])

    def _explain(self, key: str, text: str, dashes: Any) -> None:
        if key not in self.drawn:
            self.drawn[key] = Line2D([], [], color=_GREY, label=text, **_line_options(dashes))

    def _draw_random(
        self,
        axes: Axes,
        like: Record,
        colour: str,
        panel: Panel,
        split: Scored,
        tops: Mapping[str, int],
    ) -> None:
        """Draw one curve's counterpart on random weights: a curve by depth, else a level."""
        scores: dict[int | None, list[float | None]] = {}
        for record in self.random:
            if original_model(record.model) == model_text(like.model) and _same(
                record, like, _SAME_RUN
            ):
                scores.setdefault(record.depth, []).append(getattr(record, SCORE_OF[split]))
        means = {depth: _mean(values) for depth, values in scores.items()}
        points = {
            depth / tops[like.model]: mean * panel.scale.factor
            for depth, mean in sorted((d, m) for d, m in means.items() if d is not None and m)
        }
        options = {"color": colour} | _line_options(_RANDOM_DASHES)
        if points:
            axes.plot(list(points), list(points.values()), **options)
        elif (level := means.get(None)) is not None:
            axes.axhline(level * panel.scale.factor, **options)
        else:
            return
        self._explain("random", "random weights, in the curve's colour", _RANDOM_DASHES)


def split_off(records: Sequence[Record]) -> tuple[list[Record], References]:
    """Return the records that are curves of their own, and those that curves are held against.

    Records of a model with random weights are curves where the model itself has none.
    """
    own = {model_text(record.model) for record in records if record.head not in BASELINES}
    curves, guesses, random = [], [], []
    for record in records:
        if record.head in BASELINES:
            guesses.append(record)
        elif original_model(record.model) in own:
            random.append(record)
        else:
            curves.append(record)
    return curves, References(guesses, random)


def _same(one: Record, other: Record, names: Sequence[str]) -> bool:
    return key_of(one, names) == key_of(other, names)


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return interval(found).mean if found else None


def _line_options(dashes: Any) -> dict[str, Any]:
    return {"linestyle": dashes, "linewidth": 1.0, "zorder": 1.8}


Depths = Sequence[float]
Scores = Sequence[float]

_BROAD = 6.0  # width of the pale line under the depths within noise of the best, points


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
    are 95 % intervals over seeds, and hollow markers stand for runs with a trouble. Where the
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
    best = [{n: best_depth(members) for n, members in p.curves.items()} for p in panels]
    extra = _entries([one for panel in best for one in panel.values()])
    drawn = panel_figure(panels, split=split, extra=extra, ax=ax, look=look)
    curves = []
    for (axes, panel), own in zip(drawn.panels, best, strict=True):
        curves.append(_draw_panel(axes, panel, drawn, split, own, tops))
        references.draw(axes, panel, drawn.styles, split, tops)
        layers = [record.depth for record in panel.records if record.depth is not None]
        relative_axis(axes) if relative else layer_axis(axes, layers)
    share_scores(drawn, curves)
    add_legend(drawn, extra=list(references.drawn.values()))
    return drawn.figure


def _tops(records: Sequence[Record]) -> dict[str, int]:
    """Return the number of blocks of every model, as far as its records show; at least one."""
    tops: dict[str, int] = {}
    for record in records:
        tops[record.model] = max(tops.get(record.model, 1), record.depth or 0, *record.layers, 0)
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
        hollow = [depth / top for depth in panel.troubled(name, "depth")]
        draw_band(axes, placed, style, order, panel.scale, hollow, len(panel.curves))
        _mark_best(axes, curve, best[name], style, top)
        curves.append(placed)
    drawn.note(curves)
    return curves


def _mark_best(
    axes: Axes,
    curve: Mapping[float, Interval],
    best: BestDepth,
    style: CurveStyle,
    top: int,
) -> None:
    """Put a ring around the best depth, and a pale line under those within noise of it."""
    axes.add_line(_ring(style.colour, [best.best / top], [curve[best.best].mean]))
    for run in best.runs:
        places = [depth / top for depth in run]
        axes.add_line(_pale(style.colour, places, [curve[depth].mean for depth in run]))


def _entries(best: Sequence[BestDepth]) -> list[Line2D]:
    """Return what the legend says of the best depths."""
    within = _pale("#666666", label=f"within noise of it ({noise_text(best)})")
    return [_ring("#666666", label="best depth on dev"), within]


def _pale(colour: str, x: Depths = (), y: Scores = (), label: str = "") -> Line2D:
    """Return a broad pale line, or a dot for a depth without neighbours."""
    alone = len(x) == 1
    return Line2D(
        x,
        y,
        label=label,
        color=colour,
        alpha=0.45,
        linestyle="none" if alone else "-",
        linewidth=_BROAD,
        solid_capstyle="round",
        marker="o" if alone else "none",
        markersize=_BROAD,
        markeredgewidth=0,
        zorder=2.5,
    )


def _ring(colour: str, x: Depths = (), y: Scores = (), label: str = "") -> Line2D:
    return Line2D(
        x,
        y,
        label=label,
        color=colour,
        linestyle="none",
        marker="o",
        markersize=8,
        markerfacecolor="none",
        markeredgewidth=1.0,
        zorder=4,
    )
