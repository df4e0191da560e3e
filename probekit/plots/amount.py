"""Score against how much of the training split was read, one curve per head."""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import matplotlib
from matplotlib.figure import Figure

from probekit.errors import RecordError
from probekit.plots.curves import draw_bars, octave_axis, score_axis
from probekit.plots.panels import TASK, add_legend, panel_figure, split_panels
from probekit.plots.style import RC
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped
from probekit.results.summaries.scored import Scored, shown

logger = logging.getLogger(__name__)

Amount = Literal["shots", "fraction"]

_AXES: Mapping[Amount, tuple[str, int]] = {
    "shots": ("shots K (K x C sentences,\ndrawn without strata)", 1),
    "fraction": ("share of the training split (%)", 100),
}
"""Label of the x axis, and what an amount is multiplied with there."""

_APART = 2  # octaves between nothing, which has no place of its own, and the least amount
_SPREAD = 0.24  # octaves over which the curves of one point are spread, so that bars stay apart


def plot_fewshot(records: Sequence[Record], split: Scored | None = None) -> Figure:
    """Draw the score against shots (logarithmic), with 95 % intervals over seeds.

    Scores are the best ones on dev, or those of the same checkpoints on test.

    Args:
        records: records; those that are not few-shot are left out.
        split: whose scores; None is test where all the records have one, else dev.

    Raises:
        UnknownNameError: there is no such split.
        RecordError: no record has such scores, there are fewer than two numbers of shots, or
            a point would average over more than seeds.
    """
    missing = (
        "a few-shot curve needs records of at least two numbers of shots; run "
        "`probekit sweep` with --shots 8,16,32,64,128 first."
    )
    return _draw_amounts(records, "shots", split, missing)


def plot_fraction(records: Sequence[Record], split: Scored | None = None) -> Figure:
    """Draw the score against the fraction (logarithmic), with 95 % intervals over seeds.

    Scores are the best ones on dev, or those of the same checkpoints on test.

    Args:
        records: records; those that were not trained on a fraction are left out.
        split: whose scores; None is test where all the records have one, else dev.

    Raises:
        UnknownNameError: there is no such split.
        RecordError: no record has such scores, there are fewer than two fractions, or
            a point would average over more than seeds.
    """
    missing = (
        "a curve over fractions needs records of at least two; run `probekit sweep` with "
        "--fraction 0.01,0.1,1 first."
    )
    return _draw_amounts(records, "fraction", split, missing)


@matplotlib.rc_context(RC)
def _draw_amounts(
    records: Sequence[Record], amount: Amount, split: Scored | None, missing: str
) -> Figure:
    """Draw the score against the amount, with 95 % intervals over seeds.

    Every depth has a panel; one that was run with a single amount, as by ``probekit depth``, is
    left out where others of the same task and model make curves.

    Args:
        records: records; those that were not trained with such an amount are left out.
        amount: the option along the x axis.
        split: whose scores; None is test where all the records have one, else dev.
        missing: what to say where there are fewer than two amounts.

    Raises:
        UnknownNameError: there is no such split.
        RecordError: no record has such scores, there are fewer than two amounts, or a point would
            average over more than seeds.
    """
    records, split = shown([r for r in records if getattr(r, amount) is not None], split)
    if len({getattr(record, amount) for record in records}) < 2:
        raise RecordError(missing)
    records = _with_curves(records, amount)
    label, factor = _AXES[amount]
    drawn = panel_figure(split_panels(records, by=["depth"], along=[amount]), split=split)
    places = _places({getattr(record, amount) for record in records})
    for axes, panel in drawn.panels:
        curves = panel.score_curves(amount, split)
        bars = any(point.half is not None for curve in curves.values() for point in curve.values())
        shifts = _shifts(len(curves), _SPREAD if bars else 0.0)
        for (name, curve), shift in zip(curves.items(), shifts, strict=True):
            shifted = {places[x] * 2**shift: point for x, point in curve.items()}
            hollow = [places[x] * 2**shift for x in panel.troubled(name, amount)]
            draw_bars(axes, shifted, drawn.styles[name], panel.scale, hollow=hollow)
        amounts = {x for curve in curves.values() for x in curve}
        octave_axis(axes, label, {places[x]: f"{factor * x:g}" for x in amounts})
        score_axis(axes, panel.scale, curves.values())
        drawn.note(curves.values())
    add_legend(drawn)
    return drawn.figure


def _with_curves(records: Sequence[Record], amount: Amount) -> list[Record]:
    """Return the records whose depth was run with several amounts; all of a task if none was."""
    kept: list[Record] = []
    for task in grouped(records, TASK).values():
        depths = list(grouped(task, ["depth"]).values())
        curves = [group for group in depths if len({getattr(r, amount) for r in group}) > 1]
        kept += [record for group in curves or depths for record in group]
    if len(kept) < len(records):
        logger.info(
            "left out %d records: at their depth there is only one value of %s",
            len(records) - len(kept),
            amount,
        )
    return kept


def _places(amounts: Collection[float]) -> dict[float, float]:
    """Return where each amount stands on a logarithmic axis: nothing, left of all the others."""
    least = min(amount for amount in amounts if amount)
    return {amount: amount or least / 2**_APART for amount in amounts}


def _shifts(count: int, spread: float) -> list[float]:
    """Return one shift per curve, in octaves, symmetric around zero."""
    step = spread / max(count - 1, 1)
    return [(index - (count - 1) / 2) * step for index in range(count)]
