"""Score against how much of the training split was read, one curve per head."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from matplotlib.figure import Figure

from probekit.errors import RecordError
from probekit.plots.curves import draw_bars, octave_axis
from probekit.plots.panels import TASK, finish, panel_figure, split_panels
from probekit.plots.style import PLAIN, Given, Look, styled
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped, series
from probekit.results.summaries.scored import Scored, shown

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
    records: Sequence[Record],
    split: Scored | None = None,
    *,
    ax: Given = None,
    look: Look = PLAIN,
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
    records: Sequence[Record],
    split: Scored | None = None,
    *,
    ax: Given = None,
    look: Look = PLAIN,
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
