"""Pictures of what the probes of every depth say: overthinking and early exit."""

from collections.abc import Callable, Sequence

from probekit.base.notices import ProgressBar
from probekit.errors import ProbekitError
from probekit.metrics import scale_of
from probekit.metrics.contract import ClassMetric
from probekit.page.score_curves import (
    CURVE_COLUMNS,
    TASK,
    Cell,
    PageFigure,
    Section,
    score_limits,
    task_title,
)
from probekit.results.comparison.pairing import recorded_metric
from probekit.results.comparison.resampling import Bootstrap, Estimate
from probekit.results.overthinking.depth_predictions import DepthCurve, depth_curves, read_reported
from probekit.results.overthinking.early_exit import TEXTS, EarlyExit, measure_exits
from probekit.results.overthinking.shares import shares_by_depth
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped
from probekit.results.summaries.scored import Scored
from probekit.results.summaries.wording import metric_text, numbers_text

_CURVE = (*TASK, "head")
_EARLIER = {"right": "right where the last is wrong", "expected": "expected there"}

Drawn = tuple[list[PageFigure], list[str]]
"""Pictures, and what could not be drawn and why."""


def overthinking_figures(
    records: Sequence[Record], split: Scored | None, bootstrap: Bootstrap, *, progress: bool = False
) -> Drawn:
    """Draw what each depth has right, where the predictions of all depths were kept.

    Args:
        records: any.
        split: test or dev; None is test where all of a curve have one, else dev.
        bootstrap: of the intervals.
        progress: show progress on stderr.
    """
    held = [one for one in records if one.predictions is not None and _of_classes(one)]
    return _each(
        "overthinking", held, lambda curve: _shares_figure(curve, split, bootstrap), progress
    )


def _of_classes(record: Record) -> bool:
    return issubclass(recorded_metric(record), ClassMetric)


def exit_figures(
    records: Sequence[Record], split: Scored | None, bootstrap: Bootstrap, *, progress: bool = False
) -> Drawn:
    """Draw score against layers used, where the predictions of all depths were kept.

    Args:
        records: any.
        split: test or dev; None is test where all of a curve have one, else dev.
        bootstrap: of the intervals.
        progress: show progress on stderr.
    """
    held = [one for one in records if one.predictions is not None]
    return _each("exit", held, lambda curve: _exit_figure(curve, split, bootstrap), progress)


def _each(
    section: Section,
    records: Sequence[Record],
    draw: Callable[[DepthCurve], PageFigure],
    progress: bool,
) -> Drawn:
    """Draw every head of every task by itself, so that one that cannot be drawn stops no other."""
    groups = [one for one in grouped(records, _CURVE).values() if _has_depths(one)]
    figures, failed = [], []
    with ProgressBar(total=len(groups), desc=section, unit="head", shown=progress) as bar:
        for group in groups:
            try:
                figures += [draw(curve) for curve in depth_curves(group)]
            except ProbekitError as error:
                failed.append(f"{section}, {task_title(group[0])}: {error}")
            bar.report(1)
    return figures, failed


def _has_depths(records: Sequence[Record]) -> bool:
    return len({one.depth for one in records if one.depth is not None}) > 1


def _shares_figure(curve: DepthCurve, split: Scored | None, bootstrap: Bootstrap) -> PageFigure:
    reported, _ = read_reported(curve, split)
    found = shares_by_depth(reported, bootstrap)
    rows = _share_rows("right", found.depths, found.right)
    for name in ("right", "expected"):
        estimates = [getattr(one, name) for one in found.earlier]
        rows += _share_rows(_EARLIER[name], found.depths[:-1], estimates)
    sure = numbers_text([one.depth for one in found.earlier if one.knows], found.depths)
    return PageFigure(
        section="overthinking",
        kind="curves",
        title=f"{curve.name}: {task_title(curve.records[0])}",
        caption="where the last is wrong: % of the rows that the last depth has wrong\nexpected: "
        "what the last depth's calibrated probabilities give to the classes that the depth names\n"
        f"more than expected at 5 %, corrected for the depths: {sure or 'none'}\n95 % bootstrap "
        f"intervals over {reported.groups.drawn.text} of {reported.split}",
        columns=["share", "depth (0 = emb)", f"% of {reported.split} {reported.unit}",
                 *CURVE_COLUMNS],
        rows=rows,
        dashed=[_EARLIER["expected"]],
        limits=(0.0, 100.0),
    )  # fmt: skip


def _share_rows(
    name: str, depths: Sequence[int], estimates: Sequence[Estimate]
) -> list[Sequence[Cell]]:
    return [
        [name, depth, 100 * one.value, 100 * one.low, 100 * one.high, None, ""]
        for depth, one in zip(depths, estimates, strict=True)
    ]


def _exit_figure(curve: DepthCurve, split: Scored | None, bootstrap: Bootstrap) -> PageFigure:
    found = measure_exits(*read_reported(curve, split), bootstrap)
    factor = scale_of(found.metric).factor
    rows: list[Sequence[Cell]] = [
        [TEXTS[one.rule], layers, factor * score, None, None, None, ""]
        for one in found.curves
        for layers, score in zip(one.layers, one.scores, strict=True)
    ]
    rows += _chosen_rows(found, factor)
    return PageFigure(
        section="exit",
        kind="curves",
        title=f"{curve.name}: {task_title(curve.records[0])}",
        caption="a line goes through all thresholds of a rule; a point is the threshold that "
        f"{'the other half' if found.chosen_on == 'halves' else found.chosen_on} chose for a loss "
        f"of at most {found.tolerance * factor:g} against the whole model\n95 % bootstrap "
        f"intervals over {found.drawn.text} of {found.split}",
        columns=["rule", "mean layers used", f"{found.split} {metric_text(found.metric)}",
                 *CURVE_COLUMNS],
        rows=rows,
        points=[_chosen_name(one.rule) for one in found.points],
        limits=score_limits(found.metric),
    )  # fmt: skip


def _chosen_rows(found: EarlyExit, factor: float) -> list[Sequence[Cell]]:
    """Return the whole model, the chosen threshold of each rule, and the oracle."""
    return [
        [
            _chosen_name(one.rule),
            one.layers.value,
            factor * one.score.value,
            factor * one.score.low,
            factor * one.score.high,
            found.n_seeds,
            ", ".join([*one.thresholds, f"{one.saved.value:.0%} of the layers saved"]),
        ]
        for one in found.points
    ]


def _chosen_name(rule: str) -> str:
    return TEXTS[rule] if rule in ("last", "oracle") else f"{TEXTS[rule]}: chosen"
