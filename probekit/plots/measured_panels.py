"""Panels of what was measured from predictions, one per head and task, with a legend below them."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from probekit.errors import OptionError
from probekit.plots.naming import diverged_text, seeds_text, text_width, title_text
from probekit.plots.style import COLUMN_WIDTH, PAGE_WIDTH, new_figure, refuse_many
from probekit.results.overthinking import DepthCurve
from probekit.results.overthinking.estimates import Estimate
from probekit.results.summaries.diagnosis import marks
from probekit.results.summaries.wording import model_text

Given = Axes | Sequence[Axes] | None
"""Axes of the caller's own, one per panel; None makes a figure."""

Line = Mapping[str, Any]
"""Keyword arguments of ``Axes.plot``; its label stands in the legend."""

_MOST = 12
_HEIGHT = 2.2  # of a panel, inches
_TEXT_LINE = 0.165  # height of a legend's line, inches
_SAMPLE = 0.62  # width of a legend's line sample and the spaces around it, inches
_AXIS = 0.5  # width of the y axis with its label, inches
_BAND = 0.16


@dataclass(frozen=True)
class MeasuredPanels:
    """Panels to draw in, and what the legend says.

    Attributes:
        curves: what was measured, one per panel.
        entries: the lines of the legend.
        ax: the caller's axes.
        handles: the entries as the legend takes them.
    """

    curves: Sequence[DepthCurve]
    entries: Sequence[Line]
    ax: Given = None
    handles: list[Line2D] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse too many panels."""
        choice = "choose some, such as --where head=last"
        refuse_many(len(self.curves), _MOST, "panels (one per head, model, task, ...)", choice)
        self.handles.extend(Line2D([], [], **entry) for entry in self.entries)

    def open(self) -> tuple[Figure, list[Axes]]:
        """Return the figure, and the axes of each panel with its title.

        Raises:
            OptionError: the caller gave more or fewer axes than there are panels.
        """
        given = [self.ax] if isinstance(self.ax, Axes) else [*(self.ax or [])]
        titles = [self._title(curve) for curve in self.curves]
        if self.ax is not None and len(given) != len(titles):
            raise OptionError(
                f"ax: expected one Axes per panel, {len(titles)} ({'; '.join(titles)}), found "
                f"{len(given)}; give a sequence of as many, or choose records of one panel."
            )
        axes = given or self._new(len(titles))
        figure = axes[0].get_figure(root=True)
        assert figure is not None, "axes belong to a figure"
        for one, title in zip(axes, titles, strict=True):
            width = one.get_window_extent().width / figure.dpi if given else self._room(len(axes))
            one.set_title(title_text(title, width), loc="left")
            one.grid(axis="y")
        return figure, axes

    def close(self, figure: Figure, axes: Sequence[Axes]) -> None:
        """Put the legend below the panels; where the axes are the caller's, into the first."""
        note = self._note()
        if self.ax is not None:
            axes[0].legend(handles=self.handles, loc="best", title=note, frameon=True)
            return
        figure.legend(
            handles=self.handles,
            loc="outside lower center",
            ncols=self._legend_columns(len(axes)),
            title=note,
            frameon=False,
            handlelength=3.2,
            columnspacing=1.2,
            borderaxespad=0.2,
        ).get_title().set_multialignment("center")

    def _new(self, count: int) -> list[Axes]:
        columns = _columns(count)
        rows = -(-count // columns)
        lines = -(-len(self.entries) // self._legend_columns(count))
        lines += 1 + self._note().count("\n")
        titles = max(title_text(self._title(one), self._room(count)).count("\n")
                     for one in self.curves)  # fmt: skip
        height = rows * (_HEIGHT + titles * _TEXT_LINE) + (lines + 1) * _TEXT_LINE
        grid = new_figure(_width(count), height).subplots(rows, columns, squeeze=False)
        for unused in grid.flat[count:]:
            unused.remove()
        return list(grid.flat[:count])

    def _room(self, count: int) -> float:
        return _width(count) / _columns(count) - _AXIS

    def _legend_columns(self, count: int) -> int:
        widest = max(text_width(str(handle.get_label())) for handle in self.handles)
        return max(1, min(len(self.handles), int(_width(count) / (widest + _SAMPLE))))

    def _title(self, curve: DepthCurve) -> str:
        one = curve.records[0]
        label = [one.label] if one.label != "label" else []
        return ", ".join([model_text(one.model), one.task, *label, curve.name])

    def _note(self) -> str:
        """Return what the lines are over, and what is wrong with runs."""
        records = [one for curve in self.curves for one in curve.all_records]
        seeds = seeds_text(len(run.records) for curve in self.curves for run in curve.runs)
        troubles = marks(records)
        wrong = f"; some runs: {', '.join(troubles)}" if troubles else ""
        what = f"95 % intervals over sentences; {seeds}{diverged_text(records)}{wrong}"
        return textwrap.fill(what, int(_width(len(self.curves)) / 0.062))


def _columns(count: int) -> int:
    return 2 if count in (2, 4) else min(count, 3)


def _width(count: int) -> float:
    return COLUMN_WIDTH if count == 1 else PAGE_WIDTH


def draw_estimates(
    axes: Axes, places: Sequence[float], estimates: Sequence[Estimate], line: Line
) -> None:
    """Draw percentages with a band between the ends of their intervals."""
    axes.plot(places, [100 * one.value for one in estimates], **{**line, "label": None})
    axes.fill_between(
        places,
        [100 * one.low for one in estimates],
        [100 * one.high for one in estimates],
        color=line["color"],
        alpha=_BAND,
        linewidth=0,
    )
