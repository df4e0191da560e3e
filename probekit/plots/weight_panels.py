"""Panels of layer weights: which rows a panel has, in which order, and their numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from probekit.plots.cells import layer_values
from probekit.plots.naming import NAME_WIDTH, one_last_name, rows, shared_text
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped, varying
from probekit.results.summaries.layer_measures import LayerMeasure
from probekit.results.summaries.scored import mean_values

NARROW = 4.5
"""Width of a page on which names have shorter lines, inches."""


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
        found = [
            mean_values(group, measure.shown, " ".join(name.split()))
            for name, group in self.rows.items()
        ]
        means = [{n: one.mean for n, one in row.items()} for row in found]
        halves = [
            {n: np.nan if one.half is None else one.half for n, one in row.items()} for row in found
        ]
        return layer_values(means, self.top), layer_values(halves, self.top)

    def strips(self, measure: LayerMeasure) -> list[np.ndarray]:
        """Return the numbers of every row, shape (seeds, layers), seeds ascending."""
        ordered = [sorted(group, key=lambda record: record.seed) for group in self.rows.values()]
        return [layer_values([measure.shown(one) for one in group], self.top) for group in ordered]


def weight_panels(
    records: Sequence[Record], measure: LayerMeasure, width: float
) -> list[WeightPanel]:
    """Return the panels: one per model, of several tasks one per head and model.

    Args:
        records: those with numbers.
        measure: the numbers.
        width: of the figure, inches; names have shorter lines on a narrow one.
    """
    tasks = bool(varying(records, ["task", "label"]))
    characters = NAME_WIDTH * 3 // 4 if width < NARROW else NAME_WIDTH
    tops = {
        model: max(layer for one in group for layer in (*one.layers, *measure.values(one)))
        for (model,), group in grouped(records, ["model"]).items()
    }
    panels = []
    for key, group in grouped(records, ["head", "model"] if tasks else ["model"]).items():
        shared = shared_text(group, one_last_name(records))
        title = f"{key[0]}, {shared}" if tasks else shared
        found = rows(group, "task" if tasks else "head", _size_text if tasks else None, characters)
        if tasks:
            found = dict(sorted(found.items(), key=lambda item: _size_rank(item[1])))
        sized = tasks and any(_size(one) is not None for one in found.values())
        panels.append(WeightPanel(title, found, tops[key[-1]], sized))
    return panels


def _size(group: Sequence[Record]) -> int | None:
    """Return how many examples the runs of a row were fitted on, if the records say so."""
    found = [record.seen["examples"] for record in group if "examples" in record.seen]
    return max(found, default=None)


def _size_text(group: Sequence[Record]) -> str:
    size = _size(group)
    return "" if size is None else f"n={size:,}"


def _size_rank(group: Sequence[Record]) -> tuple[bool, int, int]:
    """Sort rows by what they were fitted on, then by what there was; unknown sizes last."""
    size = _size(group)
    there = max((record.seen.get("of_examples", 0) for record in group), default=0)
    return (size is None, size or 0, there)
