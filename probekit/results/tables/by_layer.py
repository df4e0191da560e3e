"""Tables with a row per layer: scores by depth, and what each layer counts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from probekit.errors import RecordError
from probekit.metrics import Scale, scale_of
from probekit.results.comparison.depths import BestDepth, best_depths
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import MARK, marks, marks_along, notes
from probekit.results.summaries.grouping import series
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.layer_measures import RAW_WEIGHTS, WEIGHTS, LayerMeasure
from probekit.results.summaries.scored import (
    SCORE_OF,
    SCORE_TEXT,
    Scored,
    has_two_scores,
    score_curve,
    shown,
)
from probekit.results.summaries.typeset import Cell, Column, Table, score_column
from probekit.results.summaries.wording import layer_text
from probekit.results.tables.scores import caption, summarise

NEAR = "~"
"""What marks the depths within noise of the best one."""


@dataclass(frozen=True)
class _Layers:
    """One column: values by layer, also before training, their runs' troubles, the best depth."""

    values: Mapping[int, Interval]
    scale: Scale
    before: Mapping[int, Interval] = field(default_factory=dict)
    troubles: Mapping[int, Sequence[str]] = field(default_factory=dict)
    best: BestDepth | None = None

    def cell(self, layer: int) -> Cell | None:
        """Return what a table prints of a layer."""
        near = NEAR if self.best and layer in self.best.within else ""
        mark = near + (MARK if self.troubles.get(layer) else "")
        return Cell(self.values[layer], self.scale, mark) if layer in self.values else None

    def to_json(self, layer: int) -> dict[str, Any]:
        """Return a cell, its value as in the records."""
        said: dict[str, Any] = {"marks": list(self.troubles.get(layer, ()))}
        if self.before:
            said["before_training"] = self.before[layer].mean
        if self.best is not None:
            said |= {"best": layer == self.best.best, "within_noise": layer in self.best.within}
        return asdict(self.values[layer]) | said


def depth_table(records: Sequence[Record], split: Scored | None = None) -> Table:
    """Return scores by depth: layers as rows (``0 = emb``), heads and their options as columns.

    Scores are percent (perplexity: raw) with the half width of their 95 % interval over seeds. The
    heading of the layers says which score it is; the last dev score stands beside the best one,
    where they are two things. A ``~`` follows the scores of the depths that are within noise of the
    best one on dev, whatever the score, and an asterisk those of runs with a trouble. JSON lines
    have one object per depth and column.

    Args:
        records: records; those that are not of a truncated depth are left out.
        split: whose scores; None is test where all have one there, else dev.

    Raises:
        RecordError: no record has a depth, or a cell would average over more than seeds.
    """
    records, split = shown([record for record in records if record.depth is not None], split)
    score = SCORE_OF[split]
    if not records:
        raise RecordError(
            f"no records with a depth and a {SCORE_TEXT[score]} score; run `probekit depth` first."
        )
    both = split == "dev" and has_two_scores(records)
    best = best_depths(records)
    columns = {
        (f"{name}: {SCORE_TEXT[field_name]}" if both else name): _Layers(
            values=score_curve(members, "depth", field_name, name),
            scale=scale_of(members[0].metric),
            troubles=marks_along(members, "depth"),
            best=best.get(name) if field_name == score else None,
        )
        for name, members in series(records, given=["depth"]).items()
        for field_name in (("eval_score", "eval_last") if both else (score,))
    }
    named = [
        depth.text if len(best) == 1 else f"{name}: {depth.text}" for name, depth in best.items()
    ]
    heading = "layer" if both else f"layer, {split}"
    lines = [*named, *notes(records)]
    return _layer_table(columns, heading, lines, caption(summarise(records)))


def weights_table(records: Sequence[Record], raw: bool = False) -> Table:
    """Return the weight of every layer, as `measure_table` does.

    Args:
        records: records; those of heads without weights are left out.
        raw: weights before the softmax.

    Raises:
        RecordError: no record has such weights, or a column would average over more than seeds.
    """
    return measure_table(records, RAW_WEIGHTS if raw else WEIGHTS)


def measure_table(records: Sequence[Record], measure: LayerMeasure) -> Table:
    """Return a number of every layer: layers as rows (``0 = emb``), heads as columns.

    An asterisk follows the numbers of runs with a trouble. Numbers that came about in several ways
    have columns of their own. JSON lines have one object per layer and column.

    Args:
        records: records; those that hold no such numbers are left out.
        measure: which number, of ``layer_measures.MEASURES``.

    Raises:
        RecordError: no record holds any, or a column would average over more than seeds.
    """
    held = measure.held(records)
    settings = measure.columns(held)
    scale = Scale(percent=False, decimals=measure.decimals)
    columns = {}
    for name, members in settings.items():
        values, before = measure.means(members, name), measure.means_before(members, name)
        troubles = dict.fromkeys(values, marks(members))
        columns[name] = _Layers(values, scale, before, troubles)
    lines = [*measure.distances(settings), *notes(held)]
    rows = summarise([*held, *measure.lost(records, held)])
    return _layer_table(columns, "layer", lines, caption(rows, measure.text(held)))


def _layer_table(
    columns: Mapping[str, _Layers], heading: str, lines: Sequence[str], below: str
) -> Table:
    layers = sorted({layer for column in columns.values() for layer in column.values})
    table = [Column(heading, list(map(layer_text, layers)), words=True, values=layers)]
    for name, column in columns.items():
        table.append(score_column(name, [column.cell(layer) for layer in layers]))
    objects = [
        {"series": name, "layer": layer, **column.to_json(layer)}
        for name, column in columns.items()
        for layer in sorted(column.values)
    ]
    return Table(table, lines, below, objects)
