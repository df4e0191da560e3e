"""The pictures of a page: what ``plots`` draws of its records, as SVG that follows its theme."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape

import matplotlib
from matplotlib.figure import Figure

from probekit.base.notices import ProgressBar
from probekit.errors import ProbekitError
from probekit.metrics.contract import ClassMetric
from probekit.plots.depth import plot_depth, plot_points
from probekit.plots.learning import plot_fewshot, plot_fraction
from probekit.plots.measured import plot_exit, plot_overthinking
from probekit.plots.panels import TASK
from probekit.plots.style import FORMATS, PAGE_WIDTH, RC, Drawing, Look, Mark
from probekit.plots.weights import plot_weights
from probekit.results.comparison import best_depths
from probekit.results.comparison.pairing import recorded_metric
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import notes
from probekit.results.summaries.grouping import BASELINES, full_depth, grouped
from probekit.results.summaries.layer_measures import MEASURES
from probekit.results.summaries.scored import Scored
from probekit.results.summaries.wording import model_text, options_text

_MEASURES = {
    "weights": "weights", "shares": "shares of the logits", "ablation": "loss without a layer",
}  # fmt: skip
"""What numbers of each layer are called, by the names of `MEASURES`."""

_THEME = {
    "#000000": "currentColor",
    "#ffffff": "var(--ground)",
    "#d9d9d9": "var(--line)",
    "#b5b5b5": "var(--line)",
    "#666666": "var(--faint)",
}
"""What lines, grounds and grey texts are in a theme; all other colours are those of the data."""

_COLOUR = re.compile("""(?:(?<=: )|(?<==["']))#[0-9a-f]{6}""")
_LARGER = 1.35  # times its size in print
_REACH = 6  # radius around a point where its values are shown, pt
_HEADINGS = {"low": "95 % from", "high": "95 % to", "column": "layer"}


@dataclass(frozen=True)
class PageFigure:
    """One picture, whose numbers can be read and copied as a table.

    Attributes:
        section: the part of the page where it stands.
        title: what it shows.
        broad: whether it is as wide as the page.
        svg: the picture.
        captions: what is to be said of it.
        headings: of its numbers, units included.
        words: which columns hold words.
        rows: its numbers, as text.
    """

    section: str
    title: str
    broad: bool
    svg: str
    captions: Sequence[str]
    headings: Sequence[str]
    words: Sequence[bool]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class _Asked:
    """A picture that is to be drawn."""

    section: str
    title: str
    records: Sequence[Record]
    plot: Callable[..., Figure]
    captions: Sequence[str] = ()


def page_figures(
    records: Sequence[Record], split: Scored | None, samples: int, *, progress: bool = False
) -> tuple[list[PageFigure], list[str]]:
    """Draw what records hold, picture by picture; return what could not be drawn and why, too.

    Args:
        records: any.
        split: test or dev; None is test where all of a picture have one, else dev.
        samples: bootstrap samples of intervals over sentences.
        progress: show progress on stderr.
    """
    asked = [*_curves(records, split), *_layers(records), *_measured(records, split, samples)]
    figures, failed = [], []
    with ProgressBar(total=len(asked), desc="pictures", unit="picture", shown=progress) as bar:
        for picture in asked:
            try:
                figures.append(_drawn(picture))
            except ProbekitError as error:  # which stops no other picture
                failed.append(f"{picture.section}, {picture.title}: {error}")
            bar.report(1)
    if not any(picture.section == "depth" for picture in asked):
        failed.append(
            "depth curves: no head was probed at two depths or more; run `probekit depth` of the "
            "same model and task."
        )
    return figures, failed


def task_title(record: Record, **more: object) -> str:
    """Return what a picture or grid of a record is about: model, task and label, and more."""
    said = {name: value for name, value in more.items() if value is not None}
    parts = [model_text(record.model), record.task, record.label, options_text(said)]
    return ", ".join(part for part in parts if part)


def _curves(records: Sequence[Record], split: Scored | None) -> Iterator[_Asked]:
    """Yield a picture of the score by depth, and by amount of train, per task."""
    deep = [record for record in records if record.depth is not None or record.head in BASELINES]
    for (*_, shots), group in grouped(deep, [*TASK, "shots"]).items():
        if _differ(group, "depth"):
            truncated = [record for record in group if record.depth is not None]
            said = [f"{name}: {best.text}" for name, best in best_depths(truncated).items()]
            several_points = len({record.spec.get("point") for record in truncated}) > 1
            draw = plot_points if several_points else plot_depth
            captions, plot = [*said, *notes(truncated)], partial(draw, split=split)
            yield _Asked("depth", task_title(group[0], shots=shots), group, plot, captions)
    for along, plot_along in (("shots", plot_fewshot), ("fraction", plot_fraction)):
        some = [record for record in records if getattr(record, along) is not None]
        for (*_, depth), group in grouped(some, [*TASK, "depth"]).items():
            if _differ(group, along):
                title = task_title(group[0], depth=depth)
                yield _Asked("amount", title, group, partial(plot_along, split=split), notes(group))


def _layers(records: Sequence[Record]) -> Iterator[_Asked]:
    """Yield a heatmap per model and measure: tasks and heads as rows, layers as columns."""
    for of, what in _MEASURES.items():
        measure = MEASURES[of]
        held = full_depth([record for record in records if len(measure.values(record)) > 1])
        for (model,), group in grouped(held, ["model"]).items():
            for way in sorted({measure.way(record) or "" for record in group}):
                alike = [record for record in group if (measure.way(record) or "") == way]
                title = ", ".join(filter(None, (what, model_text(model), way)))
                yield _Asked(
                    "weights", title, alike, partial(plot_weights, of=of), [measure.text(alike)]
                )


def _measured(records: Sequence[Record], split: Scored | None, samples: int) -> Iterator[_Asked]:
    """Yield what the probes of every depth say, a picture per head and task."""
    kept = [r for r in records if r.predictions is not None and r.spec.get("point") is None]
    classes = [record for record in kept if issubclass(recorded_metric(record), ClassMetric)]
    plots = (("overthinking", plot_overthinking, classes), ("exit", plot_exit, kept))
    for section, plot, held in plots:
        for group in grouped(held, (*TASK, "head")).values():
            if _differ(group, "depth"):
                title = f"{task_title(group[0])}: {group[0].head}"
                yield _Asked(section, title, group, partial(plot, split=split, samples=samples))


def _differ(records: Sequence[Record], along: str) -> bool:
    """Say whether records have several values of an option."""
    return len({getattr(record, along) for record in records} - {None}) > 1


def _drawn(asked: _Asked) -> PageFigure:
    figure = asked.plot(asked.records, look=Look(title=""))
    assert isinstance(figure, Drawing), "no axes of ours were given"
    svg = svg_text(figure, asked.title)
    names = {name: None for mark in figure.marks for name, value in mark.values.items()
             if value is not None}  # fmt: skip
    labels = _labels(figure)
    return PageFigure(
        asked.section,
        asked.title,
        figure.get_figwidth() >= PAGE_WIDTH,
        svg,
        asked.captions,
        [labels.get(name, name) for name in names],
        [name in ("curve", "row", "note") for name in names],
        [[_text(mark.values.get(name, ""), 6) for name in names] for mark in figure.marks],
    )


def _labels(figure: Figure) -> dict[str, str]:
    """Return what the values of marks are called: those along axes as these."""
    first = figure.axes[0]
    axes = {"x": first.get_xlabel(), "y": first.get_ylabel()}
    return _HEADINGS | {name: " ".join(label.split()) for name, label in axes.items()}


def svg_text(figure: Drawing, title: str) -> str:
    """Return a figure as an SVG element for a page: its colours follow the theme.

    Points and cells show their values when they are pointed at. Nothing in it is a name that
    another picture of the page could have as well, but of what is the same there.

    Args:
        figure: what a plot function returned.
        title: what it shows, for those who cannot see it.
    """
    figure.set_dpi(72)  # that of SVG, where a dot is a point
    drawn = io.StringIO()
    with matplotlib.rc_context(RC):
        figure.savefig(drawn, format="svg", transparent=True, **FORMATS[".svg"])
    svg = drawn.getvalue()
    inside = svg[svg.index("<g id=") : svg.rindex("</svg>")]
    inside = re.sub(r'<g id="[^"]*"', "<g", inside)
    inside = _COLOUR.sub(lambda match: _THEME.get(match[0], match[0]), inside)
    width, height = (72 * inches for inches in figure.get_size_inches())
    labels = _labels(figure)
    marks = "".join(_mark_text(mark, height, labels) for mark in figure.marks)
    return (
        f'<svg viewBox="0 0 {width:.2f} {height:.2f}" style="width: {_LARGER * width:.0f}pt" '
        f'role="img" aria-label="{escape(title)}">{inside}<g class="marks">{marks}</g></svg>'
    )


def _mark_text(mark: Mark, height: float, labels: dict[str, str]) -> str:
    """Return an element that nothing is seen of, and that shows what a mark says."""
    said = "\n".join(
        f"{labels.get(name, name)}: {_text(value, 4)}"
        for name, value in mark.values.items()
        if value is not None
    )
    x, y = mark.axes.transData.transform((mark.x, mark.y))
    title = f"<title>{escape(said)}</title>"
    if mark.corner is None:
        return f'<circle cx="{x:.1f}" cy="{height - y:.1f}" r="{_REACH}">{title}</circle>'
    right, low = mark.axes.transData.transform(mark.corner)
    size = f'width="{right - x:.1f}" height="{y - low:.1f}"'
    return f'<rect x="{x:.1f}" y="{height - y:.1f}" {size}>{title}</rect>'


def _text(value: str | float | None, digits: int) -> str:
    if value is None or isinstance(value, str | int):
        return "" if value is None else str(value)
    return f"{value:.{digits}g}"
