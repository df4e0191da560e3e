"""Score against the number of shots, one curve per head (DWAtt, Fig. 3)."""

from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure

from probekit.errors import RecordError
from probekit.plots.axis import shots_axis
from probekit.plots.lines import draw_bars
from probekit.plots.panels import add_legend, panel_figure, split_panels
from probekit.plots.style import RC
from probekit.results.groups import check_seeds, grouped
from probekit.results.interval import Interval, interval
from probekit.results.record import Record

_SPREAD = 0.24  # octaves over which the curves of one point are spread, so that bars stay apart


def plot_fewshot(records: Sequence[Record]) -> Figure:
    """Draw the best dev score against shots (logarithmic), with 95 % intervals over seeds.

    Args:
        records: records; those that are not few-shot are left out.

    Raises:
        RecordError: fewer than two numbers of shots, or a point would average over more than seeds.
    """
    records = [record for record in records if record.shots is not None]
    if len({record.shots for record in records}) < 2:
        raise RecordError(
            "a few-shot curve needs records of at least two numbers of shots; run "
            "`probekit sweep` with --shots 8,16,32,64,128 first."
        )
    with matplotlib.rc_context(RC):
        drawn = panel_figure(split_panels(records, by=["depth"], along=["shots"]))
        counts: set[int] = set()
        for axes, panel in drawn.panels:
            shifts = _shifts(len(panel.curves))
            for (name, members), shift in zip(panel.curves.items(), shifts, strict=True):
                curve = _curve(members, name)
                shifted = {shots * 2**shift: point for shots, point in curve.items()}
                draw_bars(axes, shifted, drawn.styles[name])
                counts |= {point.n for point in curve.values()}
            shots_axis(axes, sorted({r.shots for m in panel.curves.values() for r in m if r.shots}))
        add_legend(drawn, counts)
        return drawn.figure


def _shifts(count: int) -> list[float]:
    """Return one shift per curve, in octaves, symmetric around zero."""
    step = _SPREAD / max(count - 1, 1) if count > 1 else 0.0
    return [(index - (count - 1) / 2) * step for index in range(count)]


def _curve(members: Sequence[Record], name: str) -> dict[float, Interval]:
    curve = {}
    for (shots,), group in grouped(members, ["shots"]).items():
        check_seeds(group, f"{name}, {shots} shots")
        curve[shots] = interval(record.eval_score for record in group).scaled(100)
    return curve
