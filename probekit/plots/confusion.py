"""Confusion matrices: what the rows of each gold class are taken for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from probekit.plots.heatmap import Grid, heatmap_figure
from probekit.plots.naming import choice_text, rows, runs_text, shared_text
from probekit.plots.style import (
    COLOUR_MAP,
    COLUMN_WIDTH,
    PAGE_WIDTH,
    PLAIN,
    Colours,
    Given,
    Look,
    refuse_many,
    styled,
)
from probekit.results.record import Record
from probekit.results.summaries.grouping import check_seeds, grouped, holding, key_of
from probekit.results.summaries.scored import merged_others, most_confused, total_confusion

MAX_PANELS = 6
MAX_CLASSES = 16
_TASK = ("task", "label")
_BESIDE = 6  # classes of matrices that stand beside each other, at most


@styled
def plot_confusion(
    records: Sequence[Record],
    *,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Draw the share of each gold class that is taken for every class, one panel per head.

    Counts of all seeds are added. Classes are ordered by their rows of dev, which a row's name
    says; a cell without a number is less than half a percent. Of many classes, those that are
    confused least by all heads of a task together are drawn as one.

    Args:
        records: records; those without a confusion are left out.
        ax: axes of your own, one per panel.
        look: width, title and font size.

    Raises:
        OptionError: the axes do not fit the panels.
        RecordError: no record has a confusion, a panel would add up more than seeds, or there are
            too many panels.
    """
    absent = "a confusion of classes; run `probekit train` on a task with classes first."
    held = holding(records, lambda record: record.confusion, absent)
    groups = rows(held)
    refuse_many(len(groups), MAX_PANELS, "panels", choice_text(groups.values()))
    most = MAX_CLASSES if (look.width or PAGE_WIDTH) > 2 * COLUMN_WIDTH else MAX_CLASSES // 2
    shown = {key: _Shown.of(group, most) for key, group in grouped(held, _TASK).items()}
    grids = {
        name: _grid(name, group, shown[key_of(group[0], _TASK)]) for name, group in groups.items()
    }
    columns = 1 if max(len(grid.classes) for grid in grids.values()) > _BESIDE else 2
    return heatmap_figure(
        list(grids.values()),
        list(grids),
        "share of the gold class (%)",
        Colours(COLOUR_MAP, lambda: Normalize(0.0, 100.0)),
        notes=runs_text(groups.values()),
        heading=shared_text(held),
        columns=min(len(grids), columns),
        decimals=0,
        ax=ax,
        look=look,
    )


@dataclass(frozen=True)
class _Shown:
    """The classes that all panels of a task show, so that their cells can be compared.

    Attributes:
        names: of all classes of the task, in the order of `places`.
        places: of the classes that have a row and column of their own, most gold rows first.
    """

    names: Sequence[str]
    places: Sequence[int]

    @classmethod
    def of(cls, records: Sequence[Record], most: int) -> "_Shown":
        """Choose from what the heads of a task confuse, all together."""
        names, counts = total_confusion(records)
        sizes = counts.sum(1)
        places = sorted(most_confused(counts, most), key=lambda index: -sizes[index])
        return cls(names, places)

    def counts(self, records: Sequence[Record]) -> tuple[list[str], np.ndarray]:
        """Return the names of rows and columns, and the counts of some of the records."""
        names, counts = total_confusion(records)
        whole = np.zeros((len(self.names), len(self.names)))
        at = [self.names.index(name) for name in names]
        whole[np.ix_(at, at)] = counts
        return merged_others(self.names, whole, self.places)


def _grid(name: str, records: Sequence[Record], shown: _Shown) -> Grid:
    check_seeds(records, " ".join(name.split()))
    names, counts = shown.counts(records)
    occurs = np.flatnonzero(counts.sum(1))
    sizes = counts.sum(1)[occurs]
    labels = [
        f"{names[index]} ({size / len(records):,.0f})"
        for index, size in zip(occurs, sizes, strict=True)
    ]
    shares = 100 * counts[occurs] / sizes[:, None]
    # less than half a percent is neither coloured nor written
    return Grid(labels, np.where(np.round(shares) > 0, shares, np.nan), classes=names)
