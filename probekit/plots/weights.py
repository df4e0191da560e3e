"""Heatmaps of what layers count: heads, or tasks by their size, by layers (P-32, Figure 2).

Also the attention-fusion paper's Fig. 2. One panel per model, and per head where there are several
tasks, each with the layers of its own model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from probekit.base.registry import choose
from probekit.errors import OptionError, RecordError
from probekit.plots.cells import Grid
from probekit.plots.colours import Colours, lift_colours, signed_colours
from probekit.plots.heatmap import heatmap_figure
from probekit.plots.look import PLAIN, Given, Look, styled
from probekit.plots.naming import runs_text
from probekit.plots.style import refuse_many
from probekit.plots.weight_panels import WeightPanel, columns_beside, weight_panels
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped
from probekit.results.summaries.layer_measures import (
    MEASURES,
    RAW_WEIGHTS,
    LayerMeasure,
    one_ablation,
)
from probekit.results.summaries.learned_weights import caution_text

MAX_ROWS = 60
MAX_PANELS = 12
_MANY = 12  # from more rows on, they are low and have no numbers


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
    the head read, so that 1 is an equal part in a model of any depth. White is 1, and a half is as
    strong as a double; of shares, which may be negative, and of losses, white is 0.

    Several tasks make a panel per head and model, with a row per task, those that were fitted on
    the fewest examples first (as P-32's Figure 2; ``Record.seen``). Else a panel per model has a
    row per head. The half width of a mean's 95 % interval stands below it, where both fit; the
    label says how large it gets. A name says every option that rows do not share, the title what
    all share. A hatched cell is a layer of the model that the head did not read.

    Heads that train nothing are left out of weights, which are constant there, and so are rows
    that read one layer only, unless there are no others.

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
            more than seeds, or there are too many rows or panels.
    """
    measure = choose("measure", of, MEASURES)
    if raw and of != "weights":
        raise OptionError(f"raw: {of} have no values before a softmax; leave out one of the two.")
    measure = RAW_WEIGHTS if raw else measure
    given = records
    constant: list[str] = []
    records = measure.held(records)
    if of in ("weights", "initial"):
        records, constant = _trained(records)
    # rows of one layer have nothing to compare
    records = [record for record in records if len(measure.values(record)) > 1] or records
    panels = weight_panels(records, measure, look.width)
    refuse_many(len(panels), MAX_PANELS, "panels", "choose some, such as --where head=p32")
    longest = max(len(panel.rows) for panel in panels)
    remedy = "choose some, such as --where shots=128"
    refuse_many(longest, MAX_ROWS, "rows", remedy, one="one heatmap")
    compact = longest > _MANY or len(panels) > 2
    drawing = _Drawing(measure, panels, raw, per_seed, compact, look.width)
    grids = drawing.grids()
    groups = [group for panel in panels for group in panel.rows.values()]
    runs = runs_text(groups, measure.lost(given, records))
    return heatmap_figure(
        grids,
        [panel.title for panel in panels],
        _TEXTS["raw" if raw else of],
        notes=drawing.notes(records, of, runs, constant, grids),
        columns=columns_beside(grids, look.width) if drawing.compact else 1,
        colours=drawing.colours(grids),
        decimals=drawing.decimals(grids),
        ax=ax,
        look=look,
    )


def _trained(records: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """Return the records of heads that train something, and the names of the other heads.

    Raises:
        RecordError: there are only other heads.
    """
    from probekit.probe.heads import HEADS  # slow to import

    constant = {name for name, head in HEADS.items() if head.trains == "nothing"}
    kept = [record for record in records if record.head not in constant]
    left_out = [head for (head,) in grouped(records, ["head"]) if head in constant]
    if not kept:
        raise RecordError(
            f"the layer weights of {', '.join(left_out)} are constant, and none of {len(records)} "
            "records holds others; run `probekit train` with a head that weighs layers, such as "
            "--head p32 or --head attention-fusion."
        )
    return kept, left_out


@dataclass(frozen=True)
class _Drawing:
    """How the numbers of some panels are drawn."""

    measure: LayerMeasure
    panels: Sequence[WeightPanel]
    raw: bool
    per_seed: bool
    compact: bool
    width: float | None

    def grids(self) -> list[Grid]:
        """Return a heatmap for each panel."""
        return [self._grid(panel) for panel in self.panels]

    def _grid(self, panel: WeightPanel) -> Grid:
        values, halves = panel.means(self.measure)
        strips = panel.strips(self.measure) if self.per_seed else []
        coloured = np.concatenate(strips) if strips else values
        counts = [len(strip) for strip in strips] or [1] * len(values)
        if self.raw:  # sizes of heads have nothing to do with each other
            rows = np.split(coloured, np.cumsum(counts)[:-1])
            coloured = np.concatenate([row / (np.nanmax(np.abs(row)) or 1.0) for row in rows])
        return Grid(
            list(panel.rows),
            values,
            None if np.isnan(halves).all() else halves,
            cell=panel.cell(self.compact, self.width),
            strips=strips,
            shades=coloured if self.raw else None,
            numbers=not (self.compact or self.per_seed),
        )

    def colours(self, grids: Sequence[Grid]) -> Colours:
        """Return the colours that all panels share."""
        drawn = np.concatenate([grid.coloured.ravel() for grid in grids])
        if not self.measure.signed:
            return lift_colours(drawn)
        # a task's losses rise by nats, another one's by hundredths
        return signed_colours(drawn, wide=not (self.raw or self.measure.lifted))

    def decimals(self, grids: Sequence[Grid]) -> int | list[int]:
        """Return the decimals of numbers: of lifts two, of others as their row's largest needs."""
        if self.measure.lifted:
            largest = max(np.nanmax(np.abs(grid.values)) for grid in grids)
            return 2 if largest < 9.995 else 1
        return _decimals(grids[0]) if len(grids) == 1 else max(map(max, map(_decimals, grids)))

    def notes(
        self,
        records: Sequence[Record],
        of: str,
        runs: str,
        constant: Sequence[str],
        grids: Sequence[Grid],
    ) -> str:
        """Return what is drawn, what it should not be taken for, and what is left out."""
        strips = "one strip per seed" if self.per_seed else ""
        more = _notes(records, "raw" if self.raw else of)
        parts = [runs, strips, more, caution_text(records)]
        halves = [np.nanmax(grid.halves) for grid in grids if grid.halves is not None]
        if halves and not self.per_seed:
            decimals = self.decimals(grids)
            most = decimals if isinstance(decimals, int) else max(decimals)
            parts.append(f"±\u00a095\u00a0% interval, at most {max(halves):.{most}f}")
        if any(panel.sized for panel in self.panels):
            parts.append("rows by the examples fitted on, fewest first")
        if constant:
            parts.append(f"left out: {', '.join(constant)} (constant)")
        return "; ".join(part for part in parts if part)


_TEXTS = {
    "weights": "lift over uniform (weight x layers read; 1: uniform)",
    "initial": "lift over uniform before training (weight x layers read; 1: uniform)",
    "raw": "weight before the softmax / largest of its row",
    "shares": "share of the logits' variance x layers read (1: an equal share)",
    "ablation": "rise of the dev loss without the layer",
}
"""What the colour bar says."""


def _notes(records: Sequence[Record], what: str) -> str:
    """Return what else must be said of some numbers."""
    if what == "weights" and any(record.head == "concat" for record in records):
        return "concat: share of the logits"
    if what == "shares":
        return "below 0: against the others"
    if what == "ablation":
        squared = {record.decoder.startswith("regression") for record in records}
        unit = {False: "nats", True: "squared error"}
        return f"{one_ablation(records)}; in {' or '.join(unit[one] for one in sorted(squared))}"
    return ""


def _decimals(grid: Grid) -> list[int]:
    """Return decimals for the numbers of each row: two digits of the largest, at most three.

    Their sizes have nothing to do with each other: raw weights of dwatt reach 50, those of p32
    hardly 1.
    """
    largest = np.nanmax(np.abs(grid.values), axis=1)
    return [int(np.clip(1 - np.floor(np.log10(most or 1)), 0, 3)) for most in largest]
