"""Learning curves: the score or loss during training, and the score by how much of train was read.

DWAtt, Fig. 4; attention fusion, Fig. 3.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.plots.curves import draw_band, draw_bars, octave_axis
from probekit.plots.panels import TASK, Panel, finish, panel_figure, split_panels
from probekit.plots.style import PLAIN, Given, Look, styled
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import marks
from probekit.results.summaries.grouping import check_seeds, grouped, series
from probekit.results.summaries.interval import Interval, interval
from probekit.results.summaries.scored import Scored, followed, shown
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
    by_place: dict[float, list[float]] = defaultdict(list)
    step_seconds = fmean(record.train_seconds / record.curve[-1][0] for record in members)
    for record in members:
        last = record.curve[-1][0]
        per_step = {"step": 1.0, "epoch": (record.epochs or 1) / last, "seconds": step_seconds}
        for step, loss, score in record.curve:
            by_place[round(step * per_step[along], 6)].append(score if of == "score" else loss)
    return {x: interval(by_place[x]).scaled(factor) for x in sorted(by_place)}


Amount = Literal["shots", "fraction"]

_AXES: Mapping[Amount, tuple[str, int, str]] = {
    "shots": (
        "shots K (K x classes sentences,\ndrawn at random)",
        1,
        "a few-shot curve needs records of at least two numbers of shots; run `probekit sweep` "
        "with --shots 8,16,32,64,128 first.",
    ),
    "fraction": (
        "share of the training split (%)",
        100,
        "a curve over fractions needs records of at least two; run `probekit sweep` with "
        "--fraction 0.01,0.1,1 first.",
    ),
}
"""Label of the x axis, what an amount is multiplied with there, and what to do about too few."""

_APART = 2  # octaves between nothing, which has no place of its own, and the least amount
_BESIDE = 0.08  # octaves between the points that curves have at one amount


@styled
def plot_fewshot(
    records: Sequence[Record], split: Scored | None = None, *, ax: Given = None, look: Look = PLAIN
) -> Figure:
    """Draw the score against shots (logarithmic), with 95 % intervals (`mean_score`).

    Scores are the best ones on dev, or those of the same checkpoints on test.

    Args:
        records: records; those that are not few-shot are left out.
        split: whose scores; None is test where all the records have one, else dev.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        UnknownNameError: there is no such split.
        OptionError: the axes do not fit the panels.
        RecordError: no record has such scores, there are fewer than two numbers of shots, or
            a point would average over more than seeds.
    """
    return _draw_amounts(records, "shots", split, ax, look)


@styled
def plot_fraction(
    records: Sequence[Record], split: Scored | None = None, *, ax: Given = None, look: Look = PLAIN
) -> Figure:
    """Draw the score against the fraction (logarithmic), with 95 % intervals (`mean_score`).

    Scores are the best ones on dev, or those of the same checkpoints on test.

    Args:
        records: records; few-shot ones are left out, and those of all of train, which stand at
            100 %, where the same setting has no run of another fraction.
        split: whose scores; None is test where all the records have one, else dev.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        UnknownNameError: there is no such split.
        OptionError: the axes do not fit the panels.
        RecordError: no record has such scores, there are fewer than two fractions, or
            a point would average over more than seeds.
    """
    return _draw_amounts(_with_whole(records), "fraction", split, ax, look)


def _draw_amounts(
    records: Sequence[Record], amount: Amount, split: Scored | None, ax: Given, look: Look
) -> Figure:
    """Draw the score against the amount, with 95 % intervals (`mean_score`); a panel per depth."""
    label, factor, too_few = _AXES[amount]
    records, split = shown([r for r in records if getattr(r, amount) is not None], split)
    amounts = sorted({getattr(record, amount) for record in records})
    if len(amounts) < 2:
        raise RecordError(too_few)
    nothing = next(filter(None, amounts)) / 2**_APART
    texts = {value or nothing: f"{factor * value:g}" for value in amounts}
    panels = split_panels(records, by=["depth"], along=[amount])
    drawn = panel_figure(panels, split, ax=ax, look=look)
    drawn_curves = []
    for axes, panel in drawn.panels:
        curves = panel.score_curves(amount, split)
        bars = any(point.half is not None for curve in curves.values() for point in curve.values())
        for order, (name, curve) in enumerate(curves.items()):
            shift = _BESIDE * (order - (len(curves) - 1) / 2) if bars else 0.0
            placed = {x or nothing: point for x, point in curve.items()}
            troubles = {x or nothing: w for x, w in panel.troubles(name, amount).items()}
            style = drawn.styles[name]
            draw_bars(axes, placed, style, panel.scale, shift=shift, troubles=troubles)
        octave_axis(axes, label, texts)
        drawn_curves.append([*curves.values()])
    finish(drawn, drawn_curves)
    return drawn.figure


def _with_whole(records: Sequence[Record]) -> list[Record]:
    """Return the records of a fraction, and beside them those of all of train as fraction 1.

    A setting has one of the two for all of train: ``fraction=1`` where it was asked for.
    """
    kept: list[Record] = []
    for task in grouped([record for record in records if record.shots is None], TASK).values():
        for members in series(task, given=["fraction"]).values():
            parts = [record for record in members if record.fraction is not None]
            whole = [replace(record, fraction=1.0) for record in members if record.fraction is None]
            lacking = bool(parts) and all(record.fraction != 1 for record in parts)
            kept += [*parts, *(whole if lacking else ())]
    return kept
