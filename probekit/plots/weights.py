"""Heatmaps of what layers count: heads, or tasks by their size, by layers (P-32, Figure 2).

Also the attention-fusion paper's Fig. 2. One panel per model, and per head where there are several
tasks, each with the layers of its own model.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from probekit.base.layers import point_of
from probekit.base.registry import choose
from probekit.errors import OptionError, RecordError
from probekit.plots import heatmap, naming
from probekit.plots.style import PLAIN, Given, Look, refuse_many, styled
from probekit.results.record import Record
from probekit.results.summaries.grouping import BASELINES, grouped, varying
from probekit.results.summaries.layer_measures import (
    ABLATION,
    MEASURES,
    RAW_WEIGHTS,
    LayerMeasure,
    check_one_ablation,
)
from probekit.results.summaries.scored import mean_values

MAX_PANELS = 12
_LINEAR = 50  # the largest rise of a loss, over where orders of magnitude begin


@dataclass(frozen=True)
class _Panel:
    """One heatmap: its title, its rows' records by name, and the last layer of its model."""

    title: str
    rows: Mapping[str, Sequence[Record]]
    top: int

    def grid(self, measure: LayerMeasure, *, numbers: bool) -> heatmap.Grid:
        """Return the mean over seeds of every row and layer, with half its interval.

        Weights before the softmax are divided by the largest of their row.

        Raises:
            RecordError: a row would average over more than seeds.
        """
        of_heads = {}
        for name, group in self.rows.items():
            means = mean_values(group, measure.shown, " ".join(name.split()))
            if measure is RAW_WEIGHTS:  # sizes of heads have nothing to do with each other
                largest = max(abs(mean.mean) for mean in means.values()) or 1.0
                means = {layer: mean.scaled(1 / largest) for layer, mean in means.items()}
            of_heads[name] = means
        named = heatmap.rows_by_point(of_heads)
        values, halves = (
            heatmap.layer_values(
                [{n: getattr(mean, part) for n, mean in row.items()} for row in named.values()],
                self.top,
            )
            for part in ("mean", "half")
        )
        known = None if np.isnan(halves).all() else halves
        return heatmap.Grid(list(named), values, known, numbers=numbers)


def _panels(records: Sequence[Record], measure: LayerMeasure, *, per_seed: bool) -> list[_Panel]:
    """Return the panels: one per model, of several tasks one per head and model.

    Args:
        records: those with numbers.
        measure: the numbers.
        per_seed: a row for each seed.

    Raises:
        RecordError: there are too many panels or rows.
    """
    tasks = bool(varying(records, ["task", "label"]))
    panels = []
    for key, group in grouped(records, ["head", "model"] if tasks else ["model"]).items():
        shared = naming.shared_text(group, naming.one_last_name(records))
        title = f"{key[0]}, {shared}" if tasks else shared
        rows = naming.rows(group, "task" if tasks else "head", _size_text if tasks else None)
        if tasks:
            rows = dict(sorted(rows.items(), key=lambda item: _size(item[1]) or math.inf))
        if per_seed:
            rows = {
                f"{name}, seed {record.seed}": [record]
                for name, members in rows.items()
                for record in sorted(members, key=lambda record: record.seed)
            }
        of_model = (record for record in records if record.model == key[-1])
        top = max(point_of(layer)[1] for r in of_model for layer in (*r.layers, *measure.values(r)))
        panels.append(_Panel(title, rows, top))
    by_panel = [[record for row in panel.rows.values() for record in row] for panel in panels]
    refuse_many(len(panels), MAX_PANELS, "panels", naming.choice_text(by_panel))
    every = [row for panel in panels for row in panel.rows.values()]
    refuse_many(len(every), heatmap.MAX_ROWS, "rows", naming.choice_text(every))
    return panels


def _size(group: Sequence[Record]) -> int:
    """Return how many examples the runs of a row were fitted on; 0 if the records do not say."""
    return max(record.seen.get("examples", 0) for record in group)


def _size_text(group: Sequence[Record]) -> str:
    size = _size(group)
    return f"n={size:,}" if size else ""


@styled
def plot_weights(
    records: Sequence[Record],
    raw: bool = False,
    *,
    of: str = "weights",
    per_seed: bool = False,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Draw what every layer counts: the mean over seeds, one row per head, or per task.

    Weights and shares are drawn as their lift over a uniform head: times the number of layers that
    the head read, so that 1 is an equal part in a model of any depth. White is 1, and none is as
    strong as a double; of shares, which may be negative, and of losses, white is 0, and colours
    go by powers where some are large.

    Several tasks make a panel per head and model, with a row per task, those that were fitted on
    the fewest examples first (as P-32's Figure 2; ``Record.seen``). Else a panel per model has a
    row per head. The half width of a mean's 95 % interval stands below it, where both fit; the
    numbers of many rows are left out. A name says every option that rows do not share, the title
    what all share. A hatched cell is a layer of the model that the head did not read.

    Heads that train nothing are left out of weights, which are constant there, and so are rows
    that read one layer only, unless there are no others. What is left out is said below.

    Args:
        records: records; those without such numbers are left out.
        raw: the weights before the softmax, for heads that have them, divided by the largest of
            their row.
        of: ``weights``; ``initial``, those before training; ``shares`` of the variance of the
            logits; or ``ablation``, by how much the loss rises without the layer.
        per_seed: draw a row for each seed, instead of their mean.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        UnknownNameError: there is no such measure.
        OptionError: ``raw`` of another measure than weights, losses of two ways to leave out a
            layer, or axes that do not fit the panels.
        RecordError: no record has such numbers, all of them are constant, a row would average over
            more than seeds, or there are too many rows or panels.
    """
    measure = choose("measure", of, MEASURES)
    if raw and of != "weights":
        raise OptionError(f"raw: {of} have no values before a softmax; leave out one of the two.")
    measure = RAW_WEIGHTS if raw else measure
    scaled = "times layers read (1: an equal part): " if measure.lifted else ""
    scaled = "divided by the largest of its row: " if raw else scaled
    given = records
    records = measure.held(records)
    if of in ("weights", "initial"):
        records = _trained(records)
    # rows of one layer have nothing to compare
    records = [record for record in records if len(measure.values(record)) > 1] or records
    if of == "ablation":
        check_one_ablation(records)
    panels = _panels(records, measure, per_seed=per_seed)
    groups = [group for panel in panels for group in panel.rows.values()]
    grids = [panel.grid(measure, numbers=len(groups) <= heatmap.MANY_ROWS) for panel in panels]
    values = np.concatenate([grid.values.ravel() for grid in grids])
    colours = _colours(values, measure)
    notes = [naming.runs_text(groups, measure.lost(given, records))]
    if any(grid.numbers and grid.halves is not None for grid in grids):
        notes.append("±\u00a095\u00a0% interval")
    notes.append(_left_out(given, records))
    return heatmap.heatmap_figure(
        grids,
        [panel.title for panel in panels],
        scaled + measure.text(records) + colours.said,
        colours,
        notes="; ".join(filter(None, notes)),
        decimals=_decimals(values, measure),
        ax=ax,
        look=look,
    )


def _colours(values: np.ndarray, measure: LayerMeasure) -> heatmap.Colours:
    """Return the colours that all panels share."""
    if not measure.signed:
        return heatmap.lift_colours(values)
    if measure is RAW_WEIGHTS:
        return heatmap.signed_colours(values)
    if measure.lifted:  # a head that reads 30 layers may have 30 times an equal share
        return heatmap.signed_colours(values, linear=1.0)
    # a task's losses rise by nats, another one's by hundredths
    return heatmap.signed_colours(values, linear=heatmap.reach_of(values) / _LINEAR)


def _decimals(values: np.ndarray, measure: LayerMeasure) -> int:
    """Return the decimals of numbers: of losses two digits of the largest, at most three."""
    largest = heatmap.reach_of(values)
    if measure is ABLATION:
        return int(np.clip(1 - np.floor(np.log10(largest)), 0, 3))
    return 2 if largest < 9.995 else 1


def _trained(records: Sequence[Record]) -> list[Record]:
    """Return the records of heads that train something.

    Raises:
        RecordError: there are only other heads.
    """
    from probekit.probe.heads import HEADS  # slow to import

    # the weights of those that train nothing are constant
    constant = {name for name, head in HEADS.items() if head.trains == "nothing"}
    kept = [record for record in records if record.head not in constant]
    if not kept:
        heads = ", ".join(head for (head,) in grouped(records, ["head"]))
        raise RecordError(
            f"the layer weights of {heads} are constant, and none of {len(records)} "
            "records holds others; run `probekit train` with a head that weighs layers, such as "
            "--head p32 or --head attention-fusion."
        )
    return kept


def _left_out(given: Sequence[Record], drawn: Sequence[Record]) -> str:
    """Return which heads are not drawn, in words; nothing where all are."""
    shown = {*BASELINES, *(record.head for record in drawn)}
    others = [record for record in given if record.head not in shown and not record.diverged]
    heads = [head for (head,) in grouped(others, ["head"])]
    return f"left out, with nothing to compare: {', '.join(heads)}" if heads else ""
