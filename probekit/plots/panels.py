"""One figure of several panels: one per task (and model, ...), with a legend below them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from probekit.base.registry import choose
from probekit.metrics import Scale, scale_of
from probekit.plots.curves import score_axis
from probekit.plots.legend import LegendPlan, put_legend
from probekit.plots.look import PLAIN, Given, Look, given_axes
from probekit.plots.naming import choice_text, diverged_text, one_last_name, seeds_text, title_text
from probekit.plots.style import (
    COLUMN_WIDTH,
    PAGE_WIDTH,
    CurveStyle,
    curve_styles,
    font_scale,
    hollow_options,
    new_figure,
    refuse_many,
)
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import marks, marks_along, same_for_all_seeds
from probekit.results.summaries.grouping import Key, grouped, series, varying
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.scored import SCORE_OF, Scored, score_curve
from probekit.results.summaries.wording import OPTIONS, metric_text, options_text

TASK = ("model", "task", "label", "metric")
"""Options that are never mixed on one axis."""

OVERLAYS: Mapping[str, Sequence[str]] = {
    "model": ("model",),
    "task": ("task", "label"),
    "head": ("head",),
}
"""What the curves of one panel may be, with the options that come with it."""

MAX_PANELS = 12
PANEL_HEIGHT = 2.2
"""Least height of a panel, inches."""

_FLATTEST = 0.42  # least height of a panel, as a share of its width
_TITLE_LINE = 0.15  # height of a title's second line and of those after it, inches
_NARROWEST = 2.1  # width of a panel beside others, inches
_AXIS = 0.5  # width of the y axis with its label, inches


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

    ``seeds`` are the numbers of seeds that its points are over, as far as they are drawn. ``own``
    says that it was made here, so that its size may follow what is in it.
    """

    figure: Figure
    panels: Sequence[tuple[Axes, Panel]]
    styles: Mapping[str, CurveStyle]
    extra: Sequence[Line2D]
    own: bool = True
    seeds: set[int] = field(default_factory=set)

    @property
    def legend_place(self) -> Figure | Axes:
        """Where its legend stands: below all panels, or inside the first of the caller's axes."""
        return self.figure if self.own else self.panels[0][0]

    def note(self, curves: Iterable[Mapping[float, Interval]]) -> None:
        """Note how many seeds the points of some curves are over, which the legend says."""
        self.seeds.update(point.n for curve in curves for point in curve.values())


def split_panels(
    records: Sequence[Record],
    by: Sequence[str],
    along: Sequence[str],
    overlay: Sequence[str] = (),
) -> list[Panel]:
    """Return the panels of a figure.

    Args:
        records: at least one record.
        by: options beside the task's own; every combination of values is a panel.
        along: options that lie along the panel's axis.
        overlay: what the curves of one panel are, ``model``, ``task`` or ``head``: all that is not
            named has panels of its own. Heads alone if empty. Metrics never share a panel.

    Raises:
        UnknownNameError: there is no such thing to overlay.
        RecordError: there are too many panels.
    """
    for one in overlay:
        choose("overlay", one, OVERLAYS)
    within = {name for one in overlay or ("head",) for name in OVERLAYS[one]}
    names = [name for name in (*TASK[:-1], "head", TASK[-1]) if name not in within] + [*by]
    by_panel = grouped(records, names)
    things = f"panels (one per {', '.join(names)})"
    refuse_many(len(by_panel), MAX_PANELS, things, choice_text(by_panel.values()))
    panels: dict[Key, dict[str, Sequence[Record]]] = {key: {} for key in by_panel}
    lead = [OVERLAYS[one][0] for one in OVERLAYS if one in (overlay or ("head",))]
    for name, members in series(records, given=[*names, *along], lead=lead).items():
        for key, group in grouped(members, names).items():
            panels[key][name] = group
    differing = varying(records, by)
    found = []
    for key, curves in panels.items():
        options = dict(zip(names, key, strict=True))
        metric = options.pop("metric")
        # what is None in all panels is not worth a word in a title, nor is a label called "label"
        said = {n: v for n, v in options.items() if v is not None or n in differing}
        if said.get("label") == OPTIONS["label"].unsaid:
            del said["label"]
        found.append(Panel(options_text(said, one_last_name(records)), metric, curves))
    return found


def panel_figure(
    panels: Sequence[Panel],
    height: float = PANEL_HEIGHT,
    split: str = "dev",
    extra: Sequence[Line2D] = (),
    *,
    beside: float = _AXIS,
    labels: Sequence[str] = (),
    ax: Given = None,
    look: Look = PLAIN,
) -> PanelFigure:
    """Return an empty figure for the panels, with titles and y labels; one column wide for one.

    Args:
        panels: at least one panel.
        height: of each, in inches.
        split: whose scores lie along the y axis.
        extra: entries of the legend after those of the curves; what hollow markers mean follows.
        beside: width that an axis takes beside a panel with the letters of usual figures, inches.
        labels: of the y axes, where they are not the scores of ``split``.
        ax: axes of the caller's own, one per panel.
        look: width and title.

    Raises:
        OptionError: the axes do not fit the panels.
        RecordError: there are more curves than a reader can tell apart.
    """
    curves = {name: members for panel in panels for name, members in panel.curves.items()}
    styles = curve_styles(list(curves), choice_text(curves.values()))
    labels = labels or [f"{split} {metric_text(panel.metric)}" for panel in panels]
    given = given_axes(ax, [panel.title for panel in panels], look)
    columns = 1 if given else _columns(len(panels), look.width)
    room = _full_width(look, columns) / columns - beside * font_scale()
    grid = given or _new_axes(panels, columns, height, room, look)
    for index, (axes, panel) in enumerate(zip(grid, panels, strict=True)):
        width = width_of(axes) if given else room
        title = panel.title if look.title is None or len(panels) > 1 else look.title
        axes.set_title(title_text(title, width), loc="left")
        axes.grid(axis="y")
        if not index % columns or labels[index] != labels[index - 1]:
            axes.set_ylabel(labels[index])
    figure = grid[0].get_figure(root=True)
    assert figure is not None
    handles = [*extra, *hollow_entries(panels)]
    return PanelFigure(figure, list(zip(grid, panels, strict=True)), styles, handles, not given)


def _columns(count: int, width: float | None) -> int:
    """Return how many panels stand beside each other."""
    fit = max(1, int((width or PAGE_WIDTH) / _NARROWEST))
    return 2 if count in (2, 4) and fit >= 2 else min(count, fit)


def _new_axes(
    panels: Sequence[Panel], columns: int, height: float, room: float, look: Look
) -> list[Axes]:
    """Return the axes of a new figure, higher by the lines that titles take beyond the first."""
    rows = -(-len(panels) // columns)
    width = _full_width(look, columns)
    height = max(height, _FLATTEST * width / columns)
    heights = []
    for first in range(0, len(panels), columns):
        lines = max(title_text(p.title, room).count("\n") for p in panels[first : first + columns])
        heights.append(height + lines * _TITLE_LINE * font_scale())
    above = _TITLE_LINE * 2 * font_scale() if look.title and len(panels) > 1 else 0.0
    figure = new_figure(width, sum(heights) + above)
    if above:
        figure.suptitle(title_text(look.title or "", width), fontsize=rcParams["axes.titlesize"])
    places = figure.add_gridspec(rows, columns, height_ratios=heights)
    return [figure.add_subplot(places[divmod(n, columns)]) for n in range(len(panels))]


def _full_width(look: Look, columns: int) -> float:
    return look.width or (COLUMN_WIDTH if columns == 1 else PAGE_WIDTH)


def width_of(axes: Axes) -> float:
    """Return the width of some axes, inches."""
    return float(axes.get_window_extent().width / axes.figure.dpi)


def hollow_entries(panels: Sequence[Panel]) -> list[Line2D]:
    """Return the legend's entry that says what hollow markers mean, if there are any."""
    found = marks([record for panel in panels for record in panel.records])
    style = hollow_options(CurveStyle("#666666", "o", 3.8, "none"))
    return [Line2D([], [], label=f"hollow: {', '.join(found)}", **style)] if found else []


def share_scores(
    drawn: PanelFigure, curves: Sequence[Iterable[Mapping[float, Interval]]] = ()
) -> None:
    """Give the panels of one metric one y axis that holds them all, with numbers at the left alone.

    Args:
        drawn: the figure, with all that lies along its y axes.
        curves: of each panel, by which an axis may be logarithmic.
    """
    by_metric: dict[str, list[int]] = {}
    for index, (_, panel) in enumerate(drawn.panels):
        by_metric.setdefault(panel.metric, []).append(index)
    for places in by_metric.values():
        together = [curve for index in places for curve in (curves[index] if curves else ())]
        group = [drawn.panels[index][0] for index in places]
        score_axis(group, drawn.panels[places[0]][1].scale, together)
    leave_out_numbers(drawn)


def leave_out_numbers(drawn: PanelFigure) -> None:
    """Leave out the numbers of the y axes whose label and numbers stand beside them."""
    for axes, _ in drawn.panels:
        if drawn.own and not axes.get_ylabel():
            axes.tick_params(axis="y", labelleft=False)


def add_legend(drawn: PanelFigure, connected: bool = True, extra: Sequence[Line2D] = ()) -> None:
    """Put one legend below all panels; its title says what a point and its interval are.

    In axes of the caller's own it stands inside the first of them, above what is drawn.

    Args:
        drawn: the figure.
        connected: whether lines connect the points.
        extra: more entries, after those that the figure has.
    """
    no_line = {} if connected else {"linestyle": "none"}
    handles = [
        Line2D([], [], label=name, **style.line_options() | no_line)
        for name, style in drawn.styles.items()
    ]
    points = seeds_text(drawn.seeds)
    records = [record for _, panel in drawn.panels for record in panel.records]
    if max(drawn.seeds) > 1:
        same = all(map(same_for_all_seeds, records))
        points = f"{points}, the same for all" if same else f"mean and 95 % interval over {points}"
    plan = LegendPlan(handles, [*drawn.extra, *extra], points + diverged_text(records), connected)
    put_legend(drawn.legend_place, plan, [axes for axes, _ in drawn.panels])
