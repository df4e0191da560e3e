"""One figure of several panels: one per task (and model, ...), with a legend below them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from probekit.base.registry import choose
from probekit.metrics import Scale, scale_of
from probekit.plots import naming, style
from probekit.plots.curves import CurveStyle, curve_styles, score_axis
from probekit.results.comparison.mean_scores import score_curve
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import marks, marks_along
from probekit.results.summaries.grouping import Key, grouped, series, varying
from probekit.results.summaries.interval import Interval, interval_text
from probekit.results.summaries.scored import SCORE_OF, Scored
from probekit.results.summaries.wording import metric_text

TASK = ("model", "task", "label", "metric")
"""Options that are never mixed on one axis."""

OVERLAYS: Mapping[str, Sequence[str]] = {
    "model": ("model",),
    "task": ("task", "label"),
    "head": ("head",),
}
"""What the curves of one panel may be, with the options that come with it."""

Curves = Sequence[Mapping[float, Interval]]
"""Points by their place along an axis, curve by curve."""

MAX_PANELS = 12
PANEL_HEIGHT = 1.55
"""Height of a panel without its labels, inches; more where it is wide."""

_FLATTEST = 0.5  # least height of a panel, as a share of its width
_NARROWEST = 2.1  # width of a panel beside others, inches
_SAMPLE, _MARKER = 9, 5  # characters that a sample of a line, or a marker, takes in a legend
_AROUND = 2  # characters beside a legend
_PHRASE = 18  # characters of a line of a legend's phrase, at least


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

    def troubles(self, name: str, along: str) -> dict[float, Sequence[str]]:
        """Return what is wrong with some run of each point of a curve, where something is."""
        troubles = marks_along(self.curves[name], along)
        return {position: wrong for position, wrong in troubles.items() if wrong}


@dataclass(frozen=True)
class PanelFigure:
    """A figure whose panels are to be drawn into, and what is said around them in the end.

    ``made`` says that it was made here, so that its size follows what is in it.
    """

    figure: Figure
    panels: Sequence[tuple[Axes, Panel]]
    styles: Mapping[str, CurveStyle]
    look: style.Look
    made: bool
    columns: int
    height: float

    @property
    def records(self) -> list[Record]:
        """The records of all panels."""
        return [record for _, panel in self.panels for record in panel.records]


def split_panels(
    records: Sequence[Record], by: Sequence[str], along: Sequence[str], overlay: Sequence[str] = ()
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
    for kind in overlay:
        choose("overlay", kind, OVERLAYS)
    overlay = overlay or ("head",)
    within = {name for kind in overlay for name in OVERLAYS[kind]}
    names = [name for name in (*TASK[:-1], "head", TASK[-1]) if name not in within] + [*by]
    by_panel = grouped(records, names)
    things = f"panels (one per {', '.join(names)})"
    style.refuse_many(len(by_panel), MAX_PANELS, things, naming.choice_text(by_panel.values()))
    curves_of: dict[Key, dict[str, Sequence[Record]]] = {key: {} for key in by_panel}
    lead = [names[0] for kind, names in OVERLAYS.items() if kind in overlay]
    for name, members in series(records, given=[*names, *along], lead=lead).items():
        for key, group in grouped(members, names).items():
            curves_of[key][name] = group
    differing = varying(records, by)
    panels = []
    for key, curves in curves_of.items():
        options = dict(zip(names, key, strict=True))
        metric = options.pop("metric")
        # what is None in all panels is not worth a word in a title
        said = {n: v for n, v in options.items() if v is not None or n in differing}
        panels.append(Panel(naming.title_text(said, naming.one_last_name(records)), metric, curves))
    return panels


def panel_figure(
    panels: Sequence[Panel],
    split: str = "dev",
    *,
    height: float = PANEL_HEIGHT,
    labels: Sequence[str] = (),
    ax: style.Given = None,
    look: style.Look = style.PLAIN,
) -> PanelFigure:
    """Return an empty figure for the panels, with y labels; one column wide for one panel.

    ``finish`` gives it its titles, its legend and its height, once all is drawn.

    Args:
        panels: at least one panel.
        split: whose scores lie along the y axis.
        height: of each panel at least, inches.
        labels: of the y axes, where they are not the scores of ``split``.
        ax: axes of the caller's own, one per panel.
        look: width and title.

    Raises:
        OptionError: the axes do not fit the panels.
        RecordError: there are more curves than a reader can tell apart.
    """
    curves = {name: members for panel in panels for name, members in panel.curves.items()}
    styles = curve_styles(list(curves), naming.choice_text(curves.values()))
    given = style.given_axes(ax, [panel.title for panel in panels], look)
    most = max(1, int((look.width or style.PAGE_WIDTH) / _NARROWEST))
    columns = 2 if len(panels) in (2, 4) and most >= 2 else min(len(panels), most)
    columns = 1 if given else columns
    width = look.width or (style.COLUMN_WIDTH if columns == 1 else style.PAGE_WIDTH)
    grid = given or style.new_axes(
        len(panels), columns, width, [height] * -(-len(panels) // columns)
    )
    for index, (axes, panel) in enumerate(zip(grid, panels, strict=True)):
        label = labels[index] if labels else f"{split} {metric_text(panel.metric)}"
        axes.grid(axis="y")
        if not index % columns or label != grid[index - 1].get_ylabel():
            axes.set_ylabel(label)
    placed = list(zip(grid, panels, strict=True))
    return PanelFigure(style.root_figure(grid[0]), placed, styles, look, not given, columns, height)


def share_scores(drawn: PanelFigure, curves: Sequence[Curves] = ()) -> None:
    """Give the panels of one metric one y axis that holds them all, with numbers at the left alone.

    Args:
        drawn: the figure, with all that lies along its y axes.
        curves: of each panel, by which an axis may be logarithmic.
    """
    for metric in {panel.metric for _, panel in drawn.panels}:
        alike = [n for n, (_, panel) in enumerate(drawn.panels) if panel.metric == metric]
        together = [curve for n in alike if curves for curve in curves[n]]
        score_axis([drawn.panels[n][0] for n in alike], scale_of(metric), together)
    for axes, _ in drawn.panels:
        if drawn.made and not axes.get_ylabel():
            axes.tick_params(axis="y", labelleft=False)


def finish(
    drawn: PanelFigure,
    curves: Sequence[Curves],
    *,
    connected: bool = True,
    shared: bool = True,
    phrases: Sequence[Line2D] = (),
) -> None:
    """Write titles and one legend, which says what a point and its interval are.

    Args:
        drawn: the figure, with all that is in its panels.
        curves: the points of each panel, by curve.
        connected: whether lines connect the points.
        shared: whether the points are scores along y axes that panels of one metric share.
        phrases: entries of the legend after those of the curves; what hollow markers mean follows.
    """
    if shared:
        share_scores(drawn, curves)
    no_line = {} if connected else {"linestyle": "none"}
    entries = [
        Line2D([], [], label=name, **line.line_options() | no_line)
        for name, line in drawn.styles.items()
    ]
    points = [point for panel in curves for curve in panel for point in curve.values()]
    text = interval_text(
        points, "mean and " * any(point.n > 1 for point in points) + "95 % interval"
    )
    phrases = [*phrases, *hollow_entries(drawn.records)]
    explain(
        drawn, entries, phrases, text + naming.diverged_text(drawn.records), connected=connected
    )


def hollow_entries(records: Sequence[Record]) -> list[Line2D]:
    """Return the legend's entry that says what hollow markers mean, if there are any."""
    troubles = marks(records)
    marker = CurveStyle("", "#666666", "o", 3.8, "none").hollow_options()
    return [Line2D([], [], label=f"hollow: {', '.join(troubles)}", **marker)] if troubles else []


def explain(
    drawn: PanelFigure,
    curves: Sequence[Line2D],
    phrases: Sequence[Line2D],
    title: str,
    *,
    connected: bool = True,
) -> None:
    """Write the titles of panels, and a legend below all of them, for which the figure grows.

    In axes of the caller's own the legend stands inside the first of them.

    Args:
        drawn: the figure, with all that is in its panels.
        curves: the legend's first entries, named by what they are.
        phrases: its last entries, which say what marks mean and may be broken into lines.
        title: what a point is.
        connected: whether the samples are lines.
    """
    places, titles = [axes for axes, _ in drawn.panels], [panel.title for _, panel in drawn.panels]
    naming.write_titles(places, titles, drawn.look, made=drawn.made)
    where = drawn.figure if drawn.made else places[0]
    put_legend(where, curves, phrases, title, connected=connected)
    if drawn.made:
        rows = -(-len(places) // drawn.columns)
        height = max(drawn.height, _FLATTEST * style.size_of(places[0]))
        style.fit(drawn.figure, places[:: drawn.columns], rows * height, "height")


def put_legend(
    where: Figure | Axes,
    curves: Sequence[Line2D],
    phrases: Sequence[Line2D],
    title: str,
    *,
    connected: bool = True,
) -> None:
    """Put a legend below all that a figure holds, or inside some axes, where it hides least.

    Args:
        where: a figure that was made here, or axes of the caller's.
        curves: the legend's first entries, named by what they are.
        phrases: its last entries, which say what marks mean and may be broken into lines.
        title: what a point is.
        connected: whether the samples are lines.
    """
    inside = isinstance(where, Axes)
    width = style.size_of(where) if isinstance(where, Axes) else where.get_figwidth()
    room = naming.line_length(width, "legend.fontsize") - _AROUND
    handles = [*curves, *phrases]
    sample = _SAMPLE if connected else _MARKER
    longest = max([len(str(entry.get_label())) for entry in curves] + [_PHRASE] * bool(phrases))
    columns = max(1, min(len(handles), room // (longest + sample)))
    for handle in handles:
        handle.set_label(naming.wrap(str(handle.get_label()), max(8, room // columns - sample)))
    legend = where.legend(
        handles=handles,
        loc="best" if inside else "outside lower center",
        ncols=columns,
        title=naming.wrap(title, room),
        frameon=inside,
        handlelength=3.2 if connected else 1.0,
        columnspacing=1.2,
        borderaxespad=0.2,
    )
    legend.get_title().set_multialignment("center")
