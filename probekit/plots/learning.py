"""Dev score during training, one curve per head (DWAtt, Fig. 4)."""

from collections.abc import Sequence
from typing import Literal

from matplotlib.figure import Figure

from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.plots.curves import draw_band, step_axis
from probekit.plots.look import PLAIN, Given, Look, styled
from probekit.plots.panels import add_legend, panel_figure, share_scores, split_panels
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import marks
from probekit.results.summaries.grouping import check_seeds
from probekit.results.summaries.interval import Interval, interval

LearningAxis = Literal["step", "epoch"]
_AXIS_TEXT = {"step": "training step", "epoch": "epoch"}


@styled
def plot_learning(
    records: Sequence[Record],
    along: LearningAxis = "step",
    *,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Draw the dev score against training steps or epochs, with 95 % bands over seeds.

    Every number of shots and every depth has its own panel, as their runs differ in length.

    Args:
        records: records; those without a curve are left out.
        along: the x axis.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        UnknownNameError: there is no such axis.
        OptionError: the axes do not fit the panels.
        RecordError: no record has a curve of two points, or a curve would average over more than
            seeds.
    """
    choose("learning axis", along, _AXIS_TEXT)
    records = [record for record in records if len(record.curve) > 1]
    if not records:
        raise RecordError(
            "no record holds a learning curve of at least two points; run `probekit train` with "
            "--evals 2 or more."
        )
    panels = split_panels(records, by=["shots", "fraction", "depth"], along=[])
    drawn = panel_figure(panels, ax=ax, look=look)
    drawn_curves = []
    for axes, panel in drawn.panels:
        curves: dict[str, dict[float, Interval]] = {}
        for order, (name, members) in enumerate(panel.curves.items()):
            check_seeds(members, name)
            curve = curves[name] = _curve(members, along, panel.scale.factor)
            hollow = curve if marks(members) else ()
            style, count = drawn.styles[name], len(panel.curves)
            draw_band(axes, curve, style, order, panel.scale, hollow, count)
        step_axis(axes, _AXIS_TEXT[along])
        drawn_curves.append(curves.values())
        drawn.note(curves.values())
    share_scores(drawn, drawn_curves)
    add_legend(drawn)
    return drawn.figure


def _curve(members: Sequence[Record], along: LearningAxis, factor: float) -> dict[float, Interval]:
    """Return the mean score at every step that any seed was scored at."""
    scores: dict[float, list[float]] = {}
    for record in members:
        steps_per_epoch = record.curve[-1][0] / (record.epochs or 1)
        for step, _, score in record.curve:
            x = step / steps_per_epoch if along == "epoch" else step
            scores.setdefault(round(x, 6), []).append(score)
    return {x: interval(scores[x]).scaled(factor) for x in sorted(scores)}
