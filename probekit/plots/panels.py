"""One figure of several panels: one per task (and model, ...), with a legend below them."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from probekit.metrics import Scale, scale_of
from probekit.plots.naming import diverged_text, seeds_text, title_text
from probekit.plots.style import (
    COLUMN_WIDTH,
    PAGE_WIDTH,
    CurveStyle,
    curve_styles,
    hollow_options,
    new_figure,
    refuse_many,
)
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import marks, marks_along
from probekit.results.summaries.grouping import Key, grouped, series, varying
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.scored import SCORE_OF, Scored, score_curve
from probekit.results.summaries.wording import metric_text, options_text

TASK = ("model", "task", "label", "metric")
"""Options that are never mixed on one axis."""

MAX_PANELS = 12
_PANEL_HEIGHT = 2.2  # inches
_LEGEND_LINE = 0.165  # height of a legend line, inches
_CHARACTER = 0.06  # mean width of a 7 pt character, inches
_AXIS = 0.5  # width of the y axis with its label, inches
_HANDLE = 0.6  # width of a legend's line sample and spaces, inches
_PHRASE = 24  # characters of a legend's line that a phrase needs at least
_MARGIN = 0.1  # width around a legend, inches


@dataclass(frozen=True)
class Panel:
    """One panel: its title, its metric, and its records by curve."""

    title: str
    metric: str
    curves: Mapping[str, Sequence[Record]]

    @property
    def records(self) -> list[Record]:
        """Its records, curve by curve."""
        return [record for members in self.curves.values() for record in members]

    @property
    def scale(self) -> Scale:
        """How its scores are shown."""
        return scale_of(self.metric)

    def score_curves(self, along: str, split: Scored) -> dict[str, dict[float, Interval]]:
        """Return every curve of mean scores, as they are printed, along an option."""
        return {
            name: score_curve(members, along, SCORE_OF[split], name, self.scale.factor)
            for name, members in self.curves.items()
        }

    def troubled(self, name: str, along: str) -> list[float]:
        """Return the places of a curve with a run that has a trouble."""
        return [place for place, found in marks_along(self.curves[name], along).items() if found]


@dataclass(frozen=True)
class PanelFigure:
    """An empty figure, its axes with their panels, every curve's style, and its legend's extras.

    ``seeds`` are the numbers of seeds that its points are over, as far as they are drawn.
    """

    figure: Figure
    panels: Sequence[tuple[Axes, Panel]]
    styles: Mapping[str, CurveStyle]
    extra: Sequence[Line2D]
    seeds: set[int] = field(default_factory=set)

    def note(self, curves: Iterable[Mapping[float, Interval]]) -> None:
        """Note how many seeds the points of some curves are over, which the legend says."""
        self.seeds.update(point.n for curve in curves for point in curve.values())


def split_panels(records: Sequence[Record], by: Sequence[str], along: Sequence[str]) -> list[Panel]:
    """Return the panels of a figure.

    Args:
        records: at least one record.
        by: options beside the task's own; every combination of values is a panel.
        along: options that lie along the panel's axis.

    Raises:
        RecordError: there are too many panels.
    """
    names = [*TASK, *by]
    panels: dict[Key, dict[str, Sequence[Record]]] = {key: {} for key in grouped(records, names)}
    things = f"panels (one per {', '.join(names)})"
    refuse_many(len(panels), MAX_PANELS, things, "choose some, such as --where task=conll")
    for name, members in series(records, given=[*names, *along]).items():
        for key, group in grouped(members, names).items():
            panels[key][name] = group
    differing = varying(records, by)
    found = []
    for key, curves in panels.items():
        options = dict(zip(names, key, strict=True))
        metric = options.pop("metric")
        # what is None in all panels is not worth a word in a title
        said = {n: v for n, v in options.items() if v is not None or n in differing}
        found.append(Panel(options_text(said), metric, curves))
    return found


def panel_figure(
    panels: Sequence[Panel],
    height: float = _PANEL_HEIGHT,
    split: str = "dev",
    extra: Sequence[Line2D] = (),
) -> PanelFigure:
    """Return an empty figure for the panels, with titles and y labels; one column wide for one.

    Args:
        panels: at least one panel.
        height: of each, in inches.
        split: whose scores lie along the y axis.
        extra: entries of the legend after those of the curves; what hollow markers mean follows.
    """
    styles = curve_styles(list(dict.fromkeys(name for panel in panels for name in panel.curves)))
    columns = 2 if len(panels) in (2, 4) else min(len(panels), 3)
    rows = -(-len(panels) // columns)
    width = COLUMN_WIDTH if columns == 1 else PAGE_WIDTH
    handles = [*extra, *_hollow_entries(panels)]
    columns_below = _legend_columns(list(styles), width, bool(handles))
    _wrap_labels(handles, width / columns_below)
    names = [*styles, *(str(handle.get_label()) for handle in handles)]
    legend_lines = _legend_height(names, columns_below)
    figure = new_figure(width, rows * height + legend_lines * _LEGEND_LINE)
    grid = figure.subplots(rows, columns, squeeze=False)
    pairs = list(zip_longest(grid.flat, panels))
    for index, (axes, panel) in enumerate(pairs):
        if panel is None:
            axes.remove()
            continue
        axes.set_title(title_text(panel.title, width / columns - _AXIS), loc="left")
        axes.grid(axis="y")
        if index % columns == 0 or panel.metric != pairs[index - 1][1].metric:
            axes.set_ylabel(f"{split} {metric_text(panel.metric)}")
    return PanelFigure(figure, pairs[: len(panels)], styles, handles)


def _hollow_entries(panels: Sequence[Panel]) -> list[Line2D]:
    """Return the legend's entry that says what hollow markers mean, if there are any."""
    found = marks([record for panel in panels for record in panel.records])
    style = hollow_options(CurveStyle("#666666", "o", 3.8, "none"))
    return [Line2D([], [], label=f"hollow: {', '.join(found)}", **style)] if found else []


def _wrap_labels(handles: Sequence[Line2D], width: float) -> None:
    """Break labels that are wider than a column of the legend."""
    room = int((width - _MARGIN - _HANDLE) / _CHARACTER)
    for handle in handles:
        handle.set_label(textwrap.fill(str(handle.get_label()), room))


def _legend_columns(names: Sequence[str], width: float, extra: bool) -> int:
    """Return the number of columns that curves' names leave room for, and phrases, if any."""
    longest = max(max(map(len, names)), _PHRASE if extra else 0)
    return max(1, min(len(names), int((width - _MARGIN) / (longest * _CHARACTER + _HANDLE))))


def _legend_height(names: Sequence[str], columns: int) -> int:
    """Return how many lines the legend takes, with its title and one to spare."""
    rows = -(-len(names) // columns)
    by_column = [names[first : first + rows] for first in range(0, len(names), rows)]
    return 2 + max(len(column) + "".join(column).count("\n") for column in by_column)


def add_legend(drawn: PanelFigure, connected: bool = True) -> None:
    """Put one legend below all panels; its title says what a point and its interval are.

    Args:
        drawn: the figure.
        connected: whether lines connect the points.
    """
    no_line = {} if connected else {"linestyle": "none"}
    handles = [
        Line2D([], [], label=name, **style.line_options() | no_line)
        for name, style in drawn.styles.items()
    ]
    handles += drawn.extra
    width = drawn.figure.get_figwidth()
    seeds = seeds_text(drawn.seeds)
    points = seeds if max(drawn.seeds) == 1 else f"mean and 95 % interval over {seeds}"
    records = [record for _, panel in drawn.panels for record in panel.records]
    drawn.figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=_legend_columns(list(drawn.styles), width, bool(drawn.extra)),
        title=points + diverged_text(records),
        frameon=False,
        handlelength=3.2 if connected else 1.0,
        columnspacing=1.2,
        borderaxespad=0.2,
    )
