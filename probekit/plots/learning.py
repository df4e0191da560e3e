"""The score on what chooses, or the loss, during training, one curve per head and method.

DWAtt, Fig. 4; attention fusion, Fig. 3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.plots.curves import draw_band
from probekit.plots.panels import Panel, finish, panel_figure, split_panels
from probekit.plots.style import PLAIN, Given, Look, styled
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import marks
from probekit.results.summaries.grouping import check_seeds
from probekit.results.summaries.interval import Interval, interval
from probekit.results.summaries.scored import followed
from probekit.results.summaries.wording import metric_text

LearningAxis = Literal["step", "epoch", "seconds"]
Learned = Literal["score", "loss"]
_AXIS_TEXT = {"step": "training step", "epoch": "epoch", "seconds": "seconds of training"}
_LEARNED: Mapping[str, str] = {"score": "the score on what chooses", "loss": "the loss on train"}


@styled
def plot_learning(
    records: Sequence[Record],
    along: LearningAxis = "step",
    *,
    of: Learned = "score",
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Draw scores or losses against steps, epochs or seconds, with 95 % bands over seeds.

    Scores are those that chose the checkpoint: on dev, or on sentences of train held out for it.

    Every number of shots and every depth has its own panel, as their runs differ in length. Seconds
    are those that a run's steps took on average over its seeds, on a logarithmic axis: they tell
    runs from the cache from those whose model runs too. Extraction and scoring are not among them.

    Args:
        records: records; those without a curve are left out.
        along: the x axis.
        of: the score, or the mean loss on train since the point before.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        UnknownNameError: there is no such axis, or nothing of that name to be drawn.
        OptionError: the axes do not fit the panels.
        RecordError: no record has a curve of two points, or a curve would average over more than
            seeds.
    """
    choose("learning axis", along, _AXIS_TEXT)
    choose("learning curve", of, _LEARNED)
    records = [record for record in records if len(record.curve) > 1]
    if not records:
        raise RecordError(
            "no record holds a learning curve of at least two points; run `probekit train` with "
            "evals = 2 or more (--protocol FILE.toml)."
        )
    panels = split_panels(records, by=["shots", "fraction", "depth"], along=[])
    if of == "loss":
        panels = [replace(panel, metric=of) for panel in panels]
    labels = [_label(panel, of) for panel in panels]
    drawn = panel_figure(panels, labels=labels, ax=ax, look=look)
    drawn_curves = []
    for axes, panel in drawn.panels:
        curves: dict[str, dict[float, Interval]] = {}
        for order, (name, members) in enumerate(panel.curves.items()):
            check_seeds(members, name)
            curve = curves[name] = _curve(members, along, of, panel.scale.factor)
            wrong = marks(members)
            troubles = dict.fromkeys(curve, wrong) if wrong else {}
            style, count = drawn.styles[name], len(panel.curves)
            draw_band(axes, curve, style, panel.scale, order, count, troubles)
        axes.set_xlabel(_AXIS_TEXT[along])
        if along == "seconds":
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_xlim(left=0)
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 2.5, 5, 10]))
        drawn_curves.append([*curves.values()])
    finish(drawn, drawn_curves)
    return drawn.figure


def _label(panel: Panel, of: Learned) -> str:
    """Return what is drawn in a panel, and whose it is."""
    scored = {followed(record) for members in panel.curves.values() for record in members}
    whose = " or ".join(sorted(scored)) if of == "score" else "train"
    return f"{whose} {metric_text(panel.metric)}"


def _curve(
    members: Sequence[Record], along: LearningAxis, of: Learned, factor: float
) -> dict[float, Interval]:
    """Return the mean at every step that any seed was scored at."""
    by_place: dict[float, list[float]] = {}
    step_seconds = fmean(record.train_seconds / record.curve[-1][0] for record in members)
    for record in members:
        per_unit = {
            "step": 1.0,
            "epoch": record.curve[-1][0] / (record.epochs or 1),
            "seconds": 1 / step_seconds,
        }
        for step, loss, score in record.curve:
            by_place.setdefault(round(step / per_unit[along], 6), []).append(
                score if of == "score" else loss
            )
    return {x: interval(by_place[x]).scaled(factor) for x in sorted(by_place)}
