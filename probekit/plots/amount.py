"""Score against how much of the training split was read, one curve per head."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probekit.plots.axis import score_axis
from probekit.plots.lines import draw_bars, draw_hollow
from probekit.plots.panels import TASK, add_legend, panel_figure, split_panels
from probekit.plots.style import RC
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import marks
from probekit.results.summaries.grouping import grouped
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.scored import SCORE_OF, Scored, mean_score
from probekit.results.summaries.wording import option_text

logger = logging.getLogger(__name__)

Amount = Literal["shots", "fraction"]

_APART = 2  # octaves between nothing, which has no place of its own, and the least amount
_SPREAD = 0.24  # octaves over which the curves of one point are spread, so that bars stay apart


def draw_amounts(
    records: Sequence[Record],
    amount: Amount,
    label_axis: Callable[[Axes, Mapping[float, float]], None],
    split: Scored,
) -> Figure:
    """Draw the score against the amount, with 95 % intervals over seeds.

    Every depth has a panel; one that was run with a single amount, as by ``probekit depth``, is
    left out where others of the same task and model make curves.

    Args:
        records: records that were trained with such an amount, and have a score on the split.
        amount: the option along the x axis.
        label_axis: given axes, and the amounts that were run by their places, makes the x axis
            (in octaves).
        split: whose scores.

    Raises:
        RecordError: a point would average over more than seeds.
    """
    records = _with_curves(records, amount)
    with matplotlib.rc_context(RC):
        drawn = panel_figure(split_panels(records, by=["depth"], along=[amount]), split=split)
        places = _places({getattr(record, amount) for record in records})
        counts: set[int] = set()
        for axes, panel in drawn.panels:
            curves = [
                _curve(*item, amount, split, panel.scale.factor) for item in panel.curves.items()
            ]
            bars = any(point.half is not None for curve in curves for point in curve.values())
            shifts = _shifts(len(curves), _SPREAD if bars else 0.0)
            for name, curve, shift in zip(panel.curves, curves, shifts, strict=True):
                shifted = {places[x] * 2**shift: point for x, point in curve.items()}
                draw_bars(axes, shifted, drawn.styles[name], panel.scale)
                hollow = [places[x] * 2**shift for x in _troubled(panel.curves[name], amount)]
                draw_hollow(axes, shifted, hollow, drawn.styles[name])
                counts |= {point.n for point in curve.values()}
            label_axis(axes, {places[x]: x for curve in curves for x in curve})
            score_axis(axes, panel.scale, curves)
        add_legend(drawn, counts)
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


def _troubled(members: Sequence[Record], amount: Amount) -> list[float]:
    """Return the amounts with a run that has a trouble."""
    return [value for (value,), group in grouped(members, [amount]).items() if marks(group)]


def _curve(
    name: str, members: Sequence[Record], amount: Amount, split: Scored, factor: float
) -> dict[float, Interval]:
    curve = {}
    for (value,), group in grouped(members, [amount]).items():
        what = f"{name}, {option_text(amount, value)}"
        curve[value] = mean_score(group, SCORE_OF[split], what).scaled(factor)
    return curve
