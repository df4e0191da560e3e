"""Tables with a row per layer, of one task or over many; pivots by the values of an option."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.metrics import Scale, scale_of
from probekit.results.comparison.compare import BestDepth, best_depths
from probekit.results.comparison.mean_scores import TASK, mean_score, over_tasks, score_curve
from probekit.results.comparison.pairwise import ARROWS, Verdicts
from probekit.results.record import Record
from probekit.results.summaries import grouping, wording
from probekit.results.summaries.diagnosis import MARK, marks, marks_along, notes
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.layer_measures import RAW_WEIGHTS, WEIGHTS, LayerMeasure
from probekit.results.summaries.scored import SCORE_OF, SCORE_TEXT, Scored, has_two_scores, shown
from probekit.results.summaries.select import CHOSE, BestOptions
from probekit.results.summaries.typeset import Cell, Column, Table, score_column
from probekit.results.tables.scores import caption, option_column, said_lines
from probekit.tasks.suites import published_lines

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

    Scores are percent (perplexity: raw) with the half width of their 95 % interval (`mean_score`).
    The heading of the layers says which score it is; the last dev score stands beside the best one,
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
        for name, members in grouping.series(records, given=["depth"]).items()
        for field_name in (("eval_score", "eval_last") if both else (score,))
    }
    named = [
        depth.text if len(best) == 1 else f"{name}: {depth.text}" for name, depth in best.items()
    ]
    heading = "layer" if both else f"layer, {split}"
    lines = [*named, *notes(records)]
    return _layer_table(columns, heading, lines, records)


def suite_table(records: Sequence[Record], split: Scored | None = None) -> Table:
    """Return mean scores over tasks: layers as rows (``0 = emb``), models and heads as columns.

    Intervals are over tasks; `over_tasks` says which layers a ``~`` follows. JSON lines have one
    object per layer and column.

    Args:
        records: records; those that are not of a truncated depth are left out.
        split: whose scores; None is test where all have one there, else dev.

    Raises:
        RecordError: no record has a depth, the tasks have several metrics, or fewer than two tasks
            have every layer.
    """
    records, split = shown([record for record in records if record.depth is not None], split)
    if not records:
        raise RecordError(
            "no records with a depth; run `probekit suite` or `probekit depth` first."
        )
    if len(metrics := sorted({wording.metric_text(record.metric) for record in records})) > 1:
        raise RecordError(
            f"a mean over tasks is of one metric; found {', '.join(metrics)}: give --metric, or "
            "choose tasks with --where."
        )
    curves = grouping.series(records, given=["depth", *TASK], lead=["model", "head"])
    found = {name: over_tasks(members, split, name) for name, members in curves.items()}
    columns = {
        name: _Layers(
            values=found[name].means,
            scale=scale_of(members[0].metric),
            troubles=marks_along(members, "depth"),
            best=found[name].best,
        )
        for name, members in curves.items()
    }
    lines = [f"{name}: {of_curve.best.text}" for name, of_curve in found.items()]
    if left_out := max(of_curve.left_out for of_curve in found.values()):
        lack = "task lacks a layer and is" if left_out == 1 else "tasks lack a layer and are"
        lines.append(f"{left_out} {lack} left out")
    tasks = {record.task for record in records}
    lines += [*published_lines(tasks, records[0].metric), *notes(records)]
    return _layer_table(columns, f"layer, {split}", lines, records)


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
    shown = [*held, *measure.lost(records, held)]
    return _layer_table(columns, "layer", lines, shown, measure.text(held))


def _layer_table(
    columns: Mapping[str, _Layers],
    heading: str,
    lines: Sequence[str],
    records: Sequence[Record],
    what: str | None = None,
) -> Table:
    layers = sorted({layer for column in columns.values() for layer in column.values})
    table = [Column(heading, list(map(wording.layer_text, layers)), words=True, values=layers)]
    for name, column in columns.items():
        table.append(score_column(name, [column.cell(layer) for layer in layers]))
    objects = [
        {"series": name, "layer": layer, **column.to_json(layer)}
        for name, column in columns.items()
        for layer in sorted(column.values)
    ]
    means = [mean for column in columns.values() for mean in column.values.values()]
    return Table(table, lines, caption(records, means, what), objects)


def pivot(
    records: Sequence[Record],
    columns: str,
    *,
    split: Scored | None = None,
    judged: Verdicts | None = None,
    best: BestOptions | None = None,
) -> Table:
    """Return the scores on a split with a column for every value of an option.

    Rows are told apart by head and by whatever else differs; what follows from these and from the
    column, such as a rate that was searched for each number of shots, makes no rows. JSON lines
    have one object per cell.

    Args:
        records: any; those without a score on the split are left out.
        columns: the option.
        split: ``dev`` or ``test``; None is test where all have a score there, else dev.
        judged: verdicts of the settings, whose marks are shown.
        best: what dev chose, which is marked where dev is shown.

    Raises:
        UnknownNameError: records have no such option.
        RecordError: all records have the same value, or a cell would average over more than seeds.
    """
    records, split = shown(records, split)
    choose("option", columns, wording.OPTIONS)
    if not grouping.varying(records, [columns]):
        raise RecordError(_nothing_beside(records, columns, best))
    names = ["head"] * (columns != "head")
    names += grouping.distinguishing(records, [*names, columns])
    every = [*names, columns]
    cells: dict[grouping.Key, Cell] = {}
    objects: list[dict[str, Any]] = []
    for key, members in grouping.grouped(records, every).items():
        options = dict(zip(every, key, strict=True))
        setting = grouping.key_of(members[0], tuple(wording.OPTIONS))
        chose = split == "dev" and best is not None and best.chose(setting)
        troubles = [*marks(members), *[CHOSE] * chose]
        judgement = judged.rows.get(setting) if judged else None
        verdict = judgement.verdict if judgement else None
        score = mean_score(members, SCORE_OF[split], wording.options_text(options))
        mark = MARK * bool(troubles) + ARROWS[verdict]
        cells[key] = Cell(score, scale_of(members[0].metric), mark)
        said = {"split": split, "marks": troubles, "verdict": verdict}
        objects.append(options | said | asdict(score))
    rows = list(dict.fromkeys(key[:-1] for key in cells))
    options_of_rows = [dict(zip(names, row, strict=True)) for row in rows]
    table = [option_column(name, options_of_rows) for name in names]
    for (value,) in grouping.grouped(records, [columns]):
        column = [cells.get((*row, value)) for row in rows]
        table.append(score_column(wording.option_text(columns, value), column))
    lines = [*said_lines(best, judged, split == "dev"), *notes(records)]
    means = [cell.score for cell in cells.values()]
    return Table(table, lines, f"{split}; {caption(records, means)}", objects)


def _nothing_beside(records: Sequence[Record], columns: str, best: BestOptions | None) -> str:
    """Return that all records have one value of an option, and which options differ."""
    value = wording.value_text(columns, grouping.option_of(records[0], columns))
    chosen = ", which --best-on dev chose" if best and columns in best.by else ""
    others = ["head"] * bool(grouping.varying(records, ["head"])) + grouping.distinguishing(
        records, ["head"]
    )
    return (
        f"--columns {columns}: {columns.replace('_', ' ')} is "
        f"{value!r} in each of {len(records)} records{chosen}, so there is nothing to show side by "
        f"side. Options that differ: {', '.join(others) or 'none'}."
    )
