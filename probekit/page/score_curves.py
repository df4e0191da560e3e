"""Pictures of scores: by depth, and by how much of train was read."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from probekit.errors import RecordError
from probekit.metrics import scale_of
from probekit.results.comparison import BestDepth, best_depth
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import marks_along, notes
from probekit.results.summaries.grouping import grouped, series
from probekit.results.summaries.scored import SCORE_OF, Scored, score_curve, shown
from probekit.results.summaries.wording import metric_text, model_text, options_text

logger = logging.getLogger(__name__)

Cell = str | float | int | None
Kind = Literal["curves", "cells"]
Section = Literal["depth", "amount", "weights", "overthinking", "exit"]

CURVE_COLUMNS = ("low", "high", "seeds", "note")
"""What a row of a picture of curves holds after its curve, x and y: the ends of the 95 % interval,
what it is a mean over, and what is said of the point."""

_DIGITS = 6  # significant ones: more than any picture shows, and a third of the bytes


@dataclass(frozen=True, kw_only=True)
class PageFigure:
    """One picture, whose numbers can be read and copied as a table.

    Attributes:
        section: the part of the page where it stands.
        kind: ``curves`` (a row is a point: curve, x, y, `CURVE_COLUMNS`) or ``cells`` (a row is a
            cell of a heatmap: row, layer, value, what colours it, half width, seeds).
        title: what it shows.
        caption: what its numbers are.
        columns: headings of the numbers, units included.
        rows: the numbers.
        log: whether x goes by doublings.
        dashed: curves that others are held against.
        points: curves of single points.
        limits: the lowest and the highest that y can be, where intervals that reach beyond are cut
            as they are drawn; None where there is no such end.
    """

    section: Section
    kind: Kind
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    log: bool = False
    dashed: Sequence[str] = field(default_factory=list)
    points: Sequence[str] = field(default_factory=list)
    limits: tuple[float | None, float | None] = (None, None)

    def to_json(self) -> Mapping[str, Any]:
        """Return it as the page reads it, floats rounded."""
        return asdict(self) | {"rows": [[rounded(cell) for cell in row] for row in self.rows]}


def rounded(value: Cell) -> Cell:
    """Return a float with the digits that a picture needs; all else as it is."""
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


TASK = ("model", "task", "label", "metric")
"""Options that are never mixed in one picture."""

Marks = Mapping[int | float, Sequence[str]]
Along = Literal["depth", "shots", "fraction"]


def task_title(record: Record, **more: object) -> str:
    """Return what a picture or grid of a record is about: model, task and label, and more."""
    parts = [model_text(record.model), record.task, record.label, options_text(more)]
    return ", ".join(part for part in parts if part)


def depth_figures(records: Sequence[Record], split: Scored | None) -> Iterator[PageFigure]:
    """Yield a picture of the score by depth per task and number of shots.

    Args:
        records: any; those that are not of a truncated depth are left out.
        split: whose scores; None is test where all of a picture have one, else dev.
    """
    truncated = [record for record in records if record.depth is not None]
    for (*_, shots), group in grouped(truncated, [*TASK, "shots"]).items():
        more = {} if shots is None else {"shots": shots}
        yield from _figure("depth", group, "depth", split, "depth (0 = emb)", more)


def amount_figures(records: Sequence[Record], split: Scored | None) -> Iterator[PageFigure]:
    """Yield a picture of the score by shots, and by fraction, per task and depth.

    Args:
        records: any; those on all of train are left out.
        split: whose scores; None is test where all of a picture have one, else dev.
    """
    labels: dict[Along, str] = {"shots": "shots K", "fraction": "fraction of train"}
    for along, label in labels.items():
        drawn = [record for record in records if getattr(record, along) is not None]
        for (*_, depth), group in grouped(drawn, [*TASK, "depth"]).items():
            more = {} if depth is None else {"depth": depth}
            yield from _figure("amount", group, along, split, label, more)


def _figure(
    section: Section,
    records: Sequence[Record],
    along: Along,
    split: Scored | None,
    label: str,
    more: Mapping[str, object],
) -> Iterator[PageFigure]:
    """Yield the picture of one task's curves; none where there is no curve, or no such score."""
    if len({getattr(record, along) for record in records}) < 2:
        return
    try:
        records, shown_split = shown(records, split)
    except RecordError as error:  # none has a score on that split: other tasks have
        logger.info("%s: %s", task_title(records[0]), error)
        return
    metric = records[0].metric
    rows: list[Sequence[Cell]] = []
    captions = notes(records)
    for name, members in series(records, given=[along]).items():
        said: Marks = marks_along(members, along)
        if along == "depth" and len(said) > 1:
            best = best_depth(members)
            said = _with_best(said, best)
            captions.insert(0, f"{name}: {best.text}")
        factor = scale_of(metric).factor
        curve = score_curve(members, along, SCORE_OF[shown_split], name, factor)
        for x, point in curve.items():
            ends = (None, None) if point.half is None else (point.low, point.high)
            rows.append([name, x, point.mean, *ends, point.n, "; ".join(said.get(x, ()))])
    if any(row[3] is not None for row in rows):
        captions.insert(0, "mean and 95 % interval over seeds (Student's t)")
    yield PageFigure(
        section=section,
        kind="curves",
        title=task_title(records[0], **more),
        caption="\n".join(captions),
        columns=["head", label, f"{shown_split} {metric_text(metric)}", *CURVE_COLUMNS],
        rows=rows,
        log=along != "depth",
        limits=score_limits(metric),
    )


def score_limits(metric: str) -> tuple[float | None, float | None]:
    """Return the ends of a metric's scale, as its scores are printed."""
    scale = scale_of(metric)
    return scale.lowest * scale.factor, 100.0 if scale.percent else None


def _with_best(marks: Marks, best: BestDepth) -> Marks:
    """Return what is said of depths, and first which is the best one or within noise of it."""
    words: dict[int | float, str] = dict.fromkeys(best.within, "within noise of the best")
    words[best.best] = "best on dev"
    first = {depth: [words[depth]] if depth in words else [] for depth in marks}
    return {depth: [*first[depth], *said] for depth, said in marks.items()}
