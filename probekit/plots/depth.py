"""Score against depth: what a head reads out when it sees only the first layers (P-32, Fig. 4)."""

from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from probekit.errors import RecordError
from probekit.plots.curves import draw_band, layer_axis, score_axis
from probekit.plots.panels import add_legend, panel_figure, split_panels
from probekit.plots.style import RC, CurveStyle
from probekit.results.comparison import BestDepth, best_depth, noise_text
from probekit.results.record import Record
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.scored import Scored, shown

Depths = Sequence[int]
Scores = Sequence[float]

_BROAD = 6.0  # width of the pale line under the depths within noise of the best, points


@matplotlib.rc_context(RC)
def plot_depth(records: Sequence[Record], split: Scored | None = None) -> Figure:
    """Draw the score against the truncated depth, one curve per head and normalisation.

    Scores are the best ones on dev, or those of the same checkpoints on test. A ring marks the
    depth of each curve that is best on dev, whatever split is drawn; a pale line runs under the
    depths within noise of it (``comparison.best_depth``). Bands are 95 % intervals over seeds, and
    hollow markers stand for runs with a trouble.

    Args:
        records: records; those that are not of a truncated depth are left out.
        split: whose scores; None is test where all the records have one, else dev.

    Raises:
        UnknownNameError: there is no such split.
        RecordError: no record has such scores, there are fewer than two depths, or a point
            would average over more than seeds.
    """
    records = [record for record in records if record.depth is not None]
    records, split = shown(records, split)
    if len({record.depth for record in records}) < 2:
        raise RecordError(
            "a depth curve needs records of at least two depths; run `probekit depth` first."
        )
    panels = split_panels(records, by=["shots"], along=["depth"])
    best = [{n: best_depth(members) for n, members in p.curves.items()} for p in panels]
    extra = _entries([one for panel in best for one in panel.values()])
    drawn = panel_figure(panels, split=split, extra=extra)
    for (axes, panel), own in zip(drawn.panels, best, strict=True):
        curves = panel.score_curves("depth", split)
        for order, (name, curve) in enumerate(curves.items()):
            style = drawn.styles[name]
            draw_band(axes, curve, style, order, panel.scale, panel.troubled(name, "depth"))
            _mark_best(axes, curve, own[name], style)
        score_axis(axes, panel.scale, curves.values())
        layer_axis(axes, [int(depth) for curve in curves.values() for depth in curve])
        drawn.note(curves.values())
    add_legend(drawn)
    return drawn.figure


def _mark_best(
    axes: Axes, curve: Mapping[float, Interval], best: BestDepth, style: CurveStyle
) -> None:
    """Put a ring around the best depth, and a pale line under those within noise of it."""
    axes.add_line(_ring(style.colour, [best.best], [curve[best.best].mean]))
    for run in best.runs:
        axes.add_line(_pale(style.colour, run, [curve[depth].mean for depth in run]))


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
