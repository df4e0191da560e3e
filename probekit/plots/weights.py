"""Heatmaps of what layers count: heads, or tasks by their size, by layers (P-32, Figure 2).

Also the attention-fusion paper's Fig. 2. One panel per model, and per head where there are several
tasks, each with the layers of its own model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from matplotlib.figure import Figure

from probekit.base.registry import choose
from probekit.errors import OptionError, RecordError
from probekit.plots import naming
from probekit.plots.heatmap import Grid, heatmap_figure, layer_values, stacked_heights
from probekit.plots.style import (
    COLUMN_WIDTH,
    PAGE_WIDTH,
    PLAIN,
    Colours,
    Given,
    Look,
    lift_colours,
    reach_of,
    refuse_many,
    signed_colours,
    styled,
)
from probekit.results.record import Record
from probekit.results.summaries.grouping import BASELINES, grouped, varying
from probekit.results.summaries.layer_measures import (
    MEASURES,
    RAW_WEIGHTS,
    LayerMeasure,
    caution_text,
    one_ablation,
)
from probekit.results.summaries.scored import mean_values

MAX_ROWS = 60
MAX_PANELS = 12
_LINEAR = 50  # the largest rise of a loss, over where orders of magnitude begin
_TALL, _TALLEST = 9.0, 22.0  # height from which on there are two columns, and the most, inches
_MANY = 12  # from more rows on, they are low and have no numbers
_WIDE, _SLIM = 20.0, 9.0  # width of the cells of a row without numbers: on a page, a column; ems
_LEAST, _MOST = 0.7, 1.8  # width of one of these cells, ems
_GAP = 3  # characters between panels
_NARROW = 4.5  # width of a page on which names have shorter lines, inches

_TEXTS = {
    "weights": "lift over uniform (weight x layers read; 1: uniform)",
    "initial": "lift over uniform before training (weight x layers read; 1: uniform)",
    "raw": "weight before the softmax / largest of its row",
    "shares": "share of the logits' variance x layers read (1: an equal share)",
    "ablation": "rise of the dev loss without the layer",
}
"""What the colour bar says."""

_NONE = {
    "weights": "no layer weights",
    "initial": "none before training",
    "raw": "none before the softmax",
    "shares": "no shares",
    "ablation": "no layer was left out",
}
"""Why a head whose records hold nothing of a measure is not drawn."""


@dataclass(frozen=True)
class WeightPanel:
    """One panel: its title, its rows' records by name, and the last layer of its model.

    ``sized`` says that rows are in the order of what they were fitted on.
    """

    title: str
    rows: Mapping[str, Sequence[Record]]
    top: int
    sized: bool

    def means(self, measure: LayerMeasure) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean over seeds of every row and layer, and half its interval.

        Raises:
            RecordError: a row would average over more than seeds.
        """
        means_of_rows = [
            mean_values(group, measure.shown, " ".join(name.split()))
            for name, group in self.rows.items()
        ]
        means = [{n: mean.mean for n, mean in row.items()} for row in means_of_rows]
        halves = [
            {n: np.nan if mean.half is None else mean.half for n, mean in row.items()}
            for row in means_of_rows
        ]
        return layer_values(means, self.top), layer_values(halves, self.top)

    def strips(self, measure: LayerMeasure) -> list[np.ndarray]:
        """Return the numbers of every row, shape (seeds, layers), seeds ascending."""
        ordered = [sorted(group, key=lambda record: record.seed) for group in self.rows.values()]
        return [
            layer_values([measure.shown(record) for record in group], self.top) for group in ordered
        ]


def _weight_panels(
    records: Sequence[Record], measure: LayerMeasure, width: float
) -> list[WeightPanel]:
    """Return the panels: one per model, of several tasks one per head and model.

    Args:
        records: those with numbers.
        measure: the numbers.
        width: of the figure, inches; names have shorter lines on a narrow one.
    """
    tasks = bool(varying(records, ["task", "label"]))
    characters = naming.NAME_WIDTH * 3 // 4 if width < _NARROW else naming.NAME_WIDTH
    tops = {
        model: max(layer for record in group for layer in (*record.layers, *measure.values(record)))
        for (model,), group in grouped(records, ["model"]).items()
    }
    panels = []
    for key, group in grouped(records, ["head", "model"] if tasks else ["model"]).items():
        shared = naming.shared_text(group, naming.one_last_name(records))
        title = f"{key[0]}, {shared}" if tasks else shared
        by_name = naming.rows(
            group, "task" if tasks else "head", _size_text if tasks else None, characters
        )
        if tasks:
            by_name = dict(sorted(by_name.items(), key=lambda item: _size_rank(item[1])))
        sized = tasks and any(_size(members) is not None for members in by_name.values())
        panels.append(WeightPanel(title, by_name, tops[key[-1]], sized))
    return panels


def _size(group: Sequence[Record]) -> int | None:
    """Return how many examples the runs of a row were fitted on, if the records say so."""
    sizes = [record.seen["examples"] for record in group if "examples" in record.seen]
    return max(sizes, default=None)


def _size_text(group: Sequence[Record]) -> str:
    size = _size(group)
    return "" if size is None else f"n={size:,}"


def _size_rank(group: Sequence[Record]) -> tuple[bool, int, int]:
    """Sort rows by what they were fitted on, then by what there was; unknown sizes last."""
    size = _size(group)
    there = max((record.seen.get("of_examples", 0) for record in group), default=0)
    return (size is None, size or 0, there)


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
    label says how large it gets. A name says every option that rows do not share, the title what
    all share. A hatched cell is a layer of the model that the head did not read.

    Heads that train nothing are left out of weights, which are constant there, and so are rows
    that read one layer only, unless there are no others. What is left out is said below.

    Args:
        records: records; those without such numbers are left out.
        raw: the weights before the softmax, for heads that have them; the colours of a row reach
            as far as its own largest.
        of: ``weights``; ``initial``, those before training; ``shares`` of the variance of the
            logits; or ``ablation``, by how much the loss rises without the layer.
        per_seed: divide each row into strips, one per seed, instead of drawing their mean.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        UnknownNameError: there is no such measure.
        OptionError: ``raw`` of another measure than weights, losses of two ways to leave out a
            layer, or axes that do not fit the panels.
        RecordError: no record has such numbers, all of them are constant, a row would average over
            more than seeds, or there are too many rows or panels, or they would be too tall.
    """
    measure = choose("measure", of, MEASURES)
    if raw and of != "weights":
        raise OptionError(f"raw: {of} have no values before a softmax; leave out one of the two.")
    measure = RAW_WEIGHTS if raw else measure
    what = "raw" if raw else of
    given = records
    records = measure.held(records)
    if of in ("weights", "initial"):
        records = _trained(records)
    # rows of one layer have nothing to compare
    records = [record for record in records if len(measure.values(record)) > 1] or records
    drawing = _Drawing(records, what, measure, per_seed, look.width or PAGE_WIDTH)
    _check_count(drawing.panels)
    if ax is None:
        drawing = _that_fits(drawing)
    runs = naming.runs_text(drawing.groups, measure.lost(given, records))
    colours = drawing.colours
    return heatmap_figure(
        drawing.grids,
        [panel.title for panel in drawing.panels],
        _TEXTS[what] + colours.said,
        colours,
        notes="; ".join([runs, *drawing.notes, *_left_out(given, records, measure, what)]),
        columns=drawing.columns,
        decimals=drawing.decimals,
        ax=ax,
        look=look,
    )


def _check_count(panels: Sequence[WeightPanel]) -> None:
    """Refuse more panels or rows than a reader can take in."""
    by_panel = [[record for row in panel.rows.values() for record in row] for panel in panels]
    refuse_many(len(panels), MAX_PANELS, "panels", naming.choice_text(by_panel))
    longest = max((panel.rows for panel in panels), key=len)
    remedy = naming.choice_text(longest.values())
    refuse_many(len(longest), MAX_ROWS, "rows", remedy, within="one heatmap")


def _that_fits(drawing: "_Drawing") -> "_Drawing":
    """Return how panels are drawn so that the figure is no taller than can be read.

    On a page, tall panels of other rows have the width of a column each, and stand in two.

    Raises:
        RecordError: it would still be too tall.
    """
    below = len(drawing.grids) > 1 and drawing.columns == 1
    if drawing.height > _TALL and drawing.width >= 2 * COLUMN_WIDTH and below:
        drawing = replace(drawing, width=COLUMN_WIDTH, halves=True)
    if drawing.height > _TALLEST:
        raise RecordError(
            f"{len(drawing.grids)} heatmaps of {len(drawing.groups)} rows would be "
            f"{drawing.height:.0f} inches tall (at most {_TALLEST:.0f}); "
            f"{naming.choice_text(drawing.groups)}."
        )
    return drawing


def _constant() -> set[str]:
    """Return the heads that train nothing, whose weights are constant."""
    from probekit.probe.heads import HEADS  # slow to import

    return {name for name, head in HEADS.items() if head.trains == "nothing"}


def _trained(records: Sequence[Record]) -> list[Record]:
    """Return the records of heads that train something.

    Raises:
        RecordError: there are only other heads.
    """
    constant = _constant()
    kept = [record for record in records if record.head not in constant]
    if not kept:
        heads = ", ".join(head for (head,) in grouped(records, ["head"]))
        raise RecordError(
            f"the layer weights of {heads} are constant, and none of {len(records)} "
            "records holds others; run `probekit train` with a head that weighs layers, such as "
            "--head p32 or --head attention-fusion."
        )
    return kept


def _left_out(
    given: Sequence[Record], drawn: Sequence[Record], measure: LayerMeasure, what: str
) -> list[str]:
    """Return which heads are not drawn, and why, in words; none where all are."""
    shown = {record.head for record in drawn}
    reasons: dict[str, list[str]] = {}
    for (head,), group in grouped(given, ["head"]).items():
        if head in shown or head in BASELINES or all(record.diverged for record in group):
            continue
        sizes = {len(measure.values(record)) for record in group}
        if what in ("weights", "initial") and head in _constant():
            reason = "constant"
        elif 1 in sizes:
            reason = "one layer"
        else:
            reason = _NONE[what] if sizes == {0} else "only truncated depths"
        reasons.setdefault(reason, []).append(head)
    texts = [f"{', '.join(heads)} ({reason})" for reason, heads in reasons.items()]
    return [f"left out: {', '.join(texts)}"] if texts else []


@dataclass(frozen=True)
class _Drawing:
    """How the numbers of some records are drawn; ``halves``: in two columns of a page."""

    records: Sequence[Record]
    what: str
    measure: LayerMeasure
    per_seed: bool
    width: float
    halves: bool = False

    @cached_property
    def panels(self) -> list[WeightPanel]:
        """The panels; in two columns, those that are alike beside each other."""
        panels = _weight_panels(self.records, self.measure, self.width)
        return sorted(panels, key=lambda panel: -len(panel.rows)) if self.halves else panels

    @property
    def groups(self) -> list[Sequence[Record]]:
        """The records of every row."""
        return [group for panel in self.panels for group in panel.rows.values()]

    @property
    def height(self) -> float:
        """Height of all heatmaps, inches."""
        return sum(stacked_heights(self.grids, self.columns))

    @property
    def _compact(self) -> bool:
        """Whether rows are low and have no numbers."""
        panels = self.panels
        return self.halves or len(panels) > 2 or max(len(panel.rows) for panel in panels) > _MANY

    @cached_property
    def grids(self) -> list[Grid]:
        """A heatmap for each panel."""
        return [self._grid(panel, self._compact) for panel in self.panels]

    def _grid(self, panel: WeightPanel, compact: bool) -> Grid:
        values, halves = panel.means(self.measure)
        strips = panel.strips(self.measure) if self.per_seed else []
        shades = np.concatenate(strips) if strips else values
        if self.what == "raw":  # sizes of heads have nothing to do with each other
            counts = [len(strip) for strip in strips] or [1] * len(values)
            rows = np.split(shades, np.cumsum(counts)[:-1])
            shades = np.concatenate([row / (np.nanmax(np.abs(row)) or 1.0) for row in rows])
        wide = _SLIM if self.width < _NARROW else _WIDE
        cell = float(np.clip(wide / (panel.top + 1), _LEAST, _MOST))
        return Grid(
            list(panel.rows),
            values,
            None if np.isnan(halves).all() else halves,
            cell=cell if compact else Grid.cell,
            strips=strips,
            shades=shades if self.what == "raw" else None,
            numbers=not (compact or self.per_seed),
        )

    @property
    def columns(self) -> int:
        """How many heatmaps stand beside each other; those of other rows do not."""
        if self.halves:
            return 2
        names = list(self.grids[0].names)
        if not self._compact or any(list(grid.names) != names for grid in self.grids):
            return 1
        longest = max(len(line) for name in names for line in name.split("\n"))
        room = naming.line_length(self.width, "ytick.labelsize") - longest
        length = (
            naming.line_length(max(grid.width for grid in self.grids), "ytick.labelsize") + _GAP
        )
        count = len(self.grids)
        most = max(1, min(count, room // length))
        return -(-count // -(-count // most))  # 4 panels, 3 of which fit: 2 and 2

    @property
    def colours(self) -> Colours:
        """The colours that all panels share."""
        drawn = np.concatenate([grid.coloured.ravel() for grid in self.grids])
        if not self.measure.signed:
            return lift_colours(drawn)
        if self.what == "raw":
            return signed_colours(drawn)
        if self.measure.lifted:  # a head that reads 30 layers may have 30 times an equal share
            return signed_colours(drawn, linear=1.0, base=4)
        # a task's losses rise by nats, another one's by hundredths
        return signed_colours(drawn, linear=reach_of(drawn) / _LINEAR)

    @property
    def decimals(self) -> int | list[int]:
        """The decimals of numbers: of lifts two, of others as their row's largest needs."""
        if self.measure.lifted:
            largest = max(np.nanmax(np.abs(grid.values)) for grid in self.grids)
            return 2 if largest < 9.995 else 1
        decimals = [_decimals(grid) for grid in self.grids]
        return decimals[0] if len(decimals) == 1 else max(map(max, decimals))

    @property
    def notes(self) -> list[str]:
        """What is drawn, and what it should not be taken for."""
        parts = ["one strip per seed" if self.per_seed else ""]
        parts += [_notes(self.records, self.what), caution_text(self.records)]
        if not self.per_seed and any(grid.halves is not None for grid in self.grids):
            parts.append(f"±\u00a095\u00a0% interval, at most {self._widest()}")
        if any(panel.sized for panel in self.panels):
            parts.append("rows by the examples fitted on, fewest first")
        return [part for part in parts if part]

    def _widest(self) -> str:
        """Return the half of the widest interval, in the unit of the colours."""
        pairs = [(grid.halves, grid.values) for grid in self.grids if grid.halves is not None]
        if self.what == "raw":
            largest = [np.nanmax(np.abs(values), 1, keepdims=True) for _, values in pairs]
            parts = [
                half / (top + (top == 0)) for (half, _), top in zip(pairs, largest, strict=True)
            ]
            return f"{max(map(np.nanmax, parts)):.0%} of the largest of its row"
        decimals = self.decimals
        most = decimals if isinstance(decimals, int) else max(decimals)
        return f"{max(np.nanmax(half) for half, _ in pairs):.{most}f}"


def _notes(records: Sequence[Record], what: str) -> str:
    """Return what else must be said of some numbers."""
    if what == "raw":
        return "cells show the raw values"
    if what == "weights" and any(record.head == "concat" for record in records):
        return "concat: share of the logits"
    if what == "shares":
        return "below 0: works against the others"
    if what == "ablation":
        squared = {record.decoder.startswith("regression") for record in records}
        unit = {False: "nats", True: "squared error"}
        return f"{one_ablation(records)}; in {' or '.join(map(unit.__getitem__, sorted(squared)))}"
    return ""


def _decimals(grid: Grid) -> list[int]:
    """Return decimals for the numbers of each row: two digits of the largest, at most three.

    Their sizes have nothing to do with each other: raw weights of dwatt reach 50, those of p32
    hardly 1.
    """
    largest = np.nanmax(np.abs(grid.values), axis=1)
    return [int(np.clip(1 - np.floor(np.log10(most or 1)), 0, 3)) for most in largest]
