"""Score against depth: what a head reads out when it sees only the first layers (P-32, Fig. 4)."""

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from probekit.errors import RecordError
from probekit.metrics.scale import Scale
from probekit.plots.axis import layer_axis, score_axis
from probekit.plots.lines import draw_band
from probekit.plots.panels import add_legend, panel_figure, split_panels
from probekit.plots.style import RC, CurveStyle
from probekit.results.groups import grouped
from probekit.results.interval import Interval
from probekit.results.record import Record
from probekit.results.scored import SCORE_OF, Scored, mean_score, scored_on


def plot_depth(records: Sequence[Record], split: Scored = "dev") -> Figure:
    """Draw the score against the truncated depth, one curve per head and normalisation.

    Scores are the best ones on dev, or those of the same checkpoints on test. A ring marks the best
    depth of each curve; bands are 95 % intervals over seeds.

    Args:
        records: records; those that are not of a truncated depth are left out.
        split: whose scores.

    Raises:
        UnknownNameError: there is no such split.
        RecordError: no record has such scores, there are fewer than two depths, or a point
            would average over more than seeds.
    """
    records = scored_on([record for record in records if record.depth is not None], split)
    if len({record.depth for record in records}) < 2:
        raise RecordError(
            "a depth curve needs records of at least two depths; run `probekit depth` first."
        )
    with matplotlib.rc_context(RC):
        drawn = panel_figure(split_panels(records, by=["shots"], along=["depth"]), split=split)
        counts: set[int] = set()
        for axes, panel in drawn.panels:
            curves = {n: _curve(m, n, split, panel.scale.factor) for n, m in panel.curves.items()}
            for order, name in enumerate(curves):
                curve = curves[name]
                draw_band(axes, curve, drawn.styles[name], order, panel.scale)
                _ring_best(axes, curve, drawn.styles[name], panel.scale)
                counts |= {point.n for point in curve.values()}
            score_axis(axes, panel.scale, curves.values())
            layer_axis(axes, [int(depth) for curve in curves.values() for depth in curve])
        add_legend(drawn, counts, [_ring("#666666", label="best depth")])
        return drawn.figure


def _curve(
    members: Sequence[Record], name: str, split: Scored, factor: float
) -> dict[float, Interval]:
    curve: dict[float, Interval] = {}
    for (depth,), group in grouped(members, ["depth"]).items():
        what = f"{name}, depth {depth}"
        curve[depth] = mean_score(group, SCORE_OF[split], what).scaled(factor)
    return curve


def _ring_best(axes: Axes, curve: dict[float, Interval], style: CurveStyle, scale: Scale) -> None:
    best = scale.best({depth: point.mean for depth, point in curve.items()})
    ring = _ring(style.colour)
    ring.set_data([best], [curve[best].mean])
    axes.add_line(ring)


def _ring(colour: str, label: str = "") -> Line2D:
    return Line2D(
        [],
        [],
        label=label,
        color=colour,
        linestyle="none",
        marker="o",
        markersize=8,
        markerfacecolor="none",
        markeredgewidth=1.0,
        zorder=4,
    )
