"""Words of figures: names of rows, titles and labels in lines that fit, and what runs lack."""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from matplotlib import rcParams
from matplotlib.axes import Axes

from probekit.plots.style import Look, lay_out, root_figure, size_of
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import MARK, marks
from probekit.results.summaries.grouping import option_of, series, varying
from probekit.results.summaries.wording import (
    OPTIONS,
    model_text,
    options_text,
    seeds_text,
    value_text,
)

NAME_WIDTH = 28
"""Characters of a row's name before it is wrapped."""

_EM = 0.55  # width of a character, ems: more than most are, less than a capital
_NO_CHOICE = ("layers", "options", "rates", "entry", "texts", "labels_fingerprint")
"""Options that nobody would choose by."""


def rows(
    records: Sequence[Record],
    lead: Literal["head", "task"] = "head",
    detail: Callable[[Sequence[Record]], str] | None = None,
) -> dict[str, list[Record]]:
    """Return the records by row, each under its name, such as ``p32, ner, 128 shots``.

    An asterisk follows the name of runs with a trouble, which ``runs_text`` says.

    Args:
        records: those of one panel.
        lead: what a name begins with.
        detail: more to say of a row, or nothing, after its options.
    """
    by_name = {}
    for name, group in series(records, lead=[lead]).items():
        more = detail(group) if detail else ""
        text = wrap(f"{name} ({more})" if more else name, NAME_WIDTH)
        by_name[text + (f" {MARK}" if marks(group) else "")] = group
    return by_name


def shared_text(records: Sequence[Record], full_model: bool = False) -> str:
    """Return what all rows share, for the title.

    Args:
        records: those of a panel.
        full_model: whether a model has its whole name, as another panel's has the same last part.
    """
    titled = [name for name, option in OPTIONS.items() if option.titled]
    shared = {n: option_of(records[0], n) for n in titled if not varying(records, [n])}
    return title_text({n: v for n, v in shared.items() if v is not None}, full_model)


def title_text(options: Mapping[str, Any], full_model: bool = False) -> str:
    """Return options as a title says them: not those of the usual value, as a label called "label".

    Args:
        options: values by name.
        full_model: whether a model has its whole name, as another panel's has the same last part.
    """
    said = {n: v for n, v in options.items() if v is None or v != OPTIONS[n].unsaid}
    return options_text(said, full_model)


def one_last_name(records: Sequence[Record]) -> bool:
    """Say whether two models of some records have the same last part of their names."""
    models = {record.model for record in records}
    return len({model_text(model) for model in models}) < len(models)


def choice_text(groups: Iterable[Sequence[Record]]) -> str:
    """Return how to choose some of what is too much: by the option in which it differs most.

    Args:
        groups: the records of each panel, curve or row.
    """
    firsts = [group[0] for group in groups]
    values = {
        name: dict.fromkeys(option_of(record, name) for record in firsts)
        for name in OPTIONS
        if name not in _NO_CHOICE
    }
    name = max(values, key=lambda option: len(values[option]))  # of equal ones the first
    example = next((value for value in values[name] if value is not None), None)
    said = model_text(str(example)) if name == "model" else value_text(name, example)
    return f"choose some, such as --where {name}={said}"


def runs_text(groups: Iterable[Sequence[Record]], lost: Sequence[Record] = ()) -> str:
    """Return how many seeds the rows are over, and what is wrong with runs, for the label.

    Args:
        groups: the records of every row that is drawn.
        lost: those that diverged, so that there is nothing to draw of them.
    """
    groups = list(groups)
    records = [record for group in groups for record in group]
    troubles = marks(records)
    marked = f"; {MARK} {', '.join(troubles)}" if troubles else ""
    return seeds_text(map(len, groups)) + diverged_text([*records, *lost]) + marked


def diverged_text(records: Sequence[Record]) -> str:
    """Return ``; 1 of 5 runs diverged``, or nothing if none did."""
    diverged = sum(record.diverged for record in records)
    return f"; {diverged} of {len(records)} runs diverged" if diverged else ""


def wrap(text: str, characters: int) -> str:
    """Return text in lines of at most ``characters``, broken after a comma if possible.

    A phrase that is longer than a line is broken between its words; an asterisk stays with what it
    stands for.
    """
    phrases = text.replace("\n", " ").replace(f"{MARK} ", f"{MARK}\xa0").split(", ")
    glued = ", ".join(p.replace(" ", "\xa0") if len(p) < characters else p for p in phrases)
    return textwrap.fill(glued, characters, break_on_hyphens=False).replace("\xa0", " ")


Size = Literal["axes.titlesize", "legend.fontsize", "ytick.labelsize"]
"""The setting of matplotlib that says how large a text is."""


def line_length(width: float, size: Size = "axes.titlesize") -> int:
    """Return how many characters of a text about fill a width in inches."""
    return max(4, int(width * 72 / (_EM * float(rcParams[size]))))


def write_titles(
    panels: Sequence[Axes],
    titles: Sequence[str],
    look: Look,
    *,
    made: bool,
    heading: str = "",
    size: Size = "axes.titlesize",
) -> None:
    """Write a title above each panel, in lines that fit, and lay the figure out.

    Args:
        panels: axes.
        titles: one for each.
        look: whose title stands in place of the only one, or of ``heading``.
        made: whether the figure was made here, so that there is a place above several panels.
        heading: above all of them.
        size: of the panels' titles.
    """
    figure = root_figure(panels[0])
    if look.title is not None:
        titles, heading = ([look.title], "") if len(panels) == 1 else (titles, look.title)
    if heading and made:
        figure.suptitle(wrap(heading, line_length(figure.get_figwidth())))
    lay_out(figure)
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(wrap(title, line_length(size_of(axes), size)), fontsize=rcParams[size])
