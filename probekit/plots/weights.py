"""Heatmap of layer weights: heads and tasks by layers (attention-fusion paper, Fig. 2; P-32)."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from probekit.errors import RecordError
from probekit.plots.heatmap import Grid, heatmap_figure, layer_values
from probekit.plots.naming import rows, runs_text, shared_text
from probekit.plots.style import refuse_many
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.learned_weights import (
    caution_text,
    layer_weights,
    lost_weights,
    mean_weights,
    weights_text,
    with_weights,
)

MAX_ROWS = 60


def plot_weights(records: Sequence[Record], raw: bool = False) -> Figure:
    """Draw the mean weight over seeds that every head gave each layer, one row per head and task.

    The half width of its 95 % interval stands below a mean, where both fit; the label says how
    large it gets. A row's name says every option that it does not share with the others, the title
    what all share. A hatched cell is a layer that the head did not read, which is not the same as
    weight 0. Heads that train nothing are left out, as their weights are constant, and so are rows
    that read one layer only, unless there are no others.

    Args:
        records: records; those of heads without weights are left out.
        raw: the weights before the softmax, for heads that have them.

    Raises:
        RecordError: no record has such weights, all of them are constant, a row would average over
            more than seeds, or there are too many rows.
    """
    given, (records, constant) = records, _trained(with_weights(records, raw))
    # rows of one layer have nothing to compare
    records = [record for record in records if len(layer_weights(record, raw)) > 1] or records
    means = {
        name: mean_weights(group, raw, " ".join(name.split()))
        for name, group in rows(records).items()
    }
    grid = _grid(means)
    runs = runs_text(records, lost_weights(given, records))
    lightest = min(0.0, float(np.nanmin(grid.values)))  # a contribution may be negative
    return heatmap_figure(
        [grid],
        [shared_text(records)],
        _label(records, raw, runs, constant, grid),
        low=None if raw else lightest,
        high=None if raw else _darkest(grid),
        decimals=_decimals(grid) if raw else 2,
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


def _grid(means: Mapping[str, Mapping[int, Interval]]) -> Grid:
    remedy = "choose some, such as --where shots=128"
    refuse_many(len(means), MAX_ROWS, "rows", remedy, one="one heatmap")
    found = [row.items() for row in means.values()]
    values = layer_values([{n: weight.mean for n, weight in row} for row in found])
    halves = layer_values([{n: _half(weight) for n, weight in row} for row in found])
    return Grid(list(means), values, None if np.isnan(halves).all() else halves)


def _half(weight: Interval) -> float:
    return np.nan if weight.half is None else weight.half


def _decimals(grid: Grid) -> list[int]:
    """Return decimals for the raw weights of each row: two digits of the largest, at most three.

    Their sizes have nothing to do with each other: dwatt's reach 50, those of p32 hardly 1.
    """
    largest = np.nanmax(np.abs(grid.values), axis=1)
    return [int(np.clip(1 - np.floor(np.log10(most or 1)), 0, 3)) for most in largest]


def _darkest(grid: Grid) -> float:
    """Return the largest weight, but at least twice an even share of the row with most layers."""
    most = np.count_nonzero(~np.isnan(grid.values), axis=1).max()
    return float(max(np.nanmax(grid.values), min(1.0, 2 / most)))


def _label(
    records: Sequence[Record], raw: bool, runs: str, constant: Sequence[str], grid: Grid
) -> str:
    """Return what the colours are, what they should not be taken for, and what is left out."""
    parts = [f"weight ({weights_text(records, raw)}), {runs}", caution_text(records)]
    if grid.halves is not None:
        decimals = max(_decimals(grid)) if raw else 2
        parts.append(f"±\u00a095\u00a0% interval, at most {np.nanmax(grid.halves):.{decimals}f}")
    if constant:
        parts.append(f"left out: {', '.join(constant)} (constant)")
    return "; ".join(part for part in parts if part)
