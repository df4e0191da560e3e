"""Words of figures: names of rows, titles and labels in lines that fit, and what runs lack."""

import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from matplotlib import rcParams

from probekit.results.record import Record
from probekit.results.summaries.diagnosis import MARK, marks
from probekit.results.summaries.grouping import grouped, naming, option_of, options_of, varying
from probekit.results.summaries.wording import (
    OPTIONS,
    model_text,
    option_text,
    options_text,
    seeds_text,
    value_text,
)

NAME_WIDTH = 28
"""Characters of a row's name before it is wrapped."""

_EM = 0.55  # width of a character, ems: more than most are, less than a capital
Size = Literal["axes.titlesize", "legend.fontsize", "xtick.labelsize", "ytick.labelsize"]
"""The setting of matplotlib that says how large a text is."""

_NO_CHOICE = ("layers", "options", "rates", "entry", "texts", "labels_fingerprint")
"""Options that nobody would choose by."""
_ORIGINS = ("user", "steps", "head", "others")
"""The order in which options are asked whether a row must say them."""


def rows(
    records: Sequence[Record],
    lead: Literal["head", "task"] = "head",
    detail: Callable[[Sequence[Record]], str] | None = None,
    characters: int = NAME_WIDTH,
) -> dict[str, list[Record]]:
    """Return the records by row, each under its name, such as ``p32 (ner, 128 shots)``.

    A legend of one panel may leave out an option that happens to follow from the head; a row may
    not, since nothing else in the figure would say it. An asterisk follows the name of runs with a
    trouble, which ``runs_text`` says.

    Args:
        records: those of one panel.
        lead: what a name begins with; a label goes without saying where it follows from the task.
        detail: more to say of a row, or nothing, after its options.
        characters: of a line.
    """
    names = [lead, *_row_options(records, lead)]
    groups = grouped(records, names)
    full = one_last_name(records)
    alone = _heads_of_one_setting(records)
    by_name = {}
    for key, group in groups.items():
        said = _stated(dict(zip(names, key, strict=True)), alone)
        first, *others = (
            value if full and name == "model" else option_text(name, value)
            for name, value in said.items()
        )
        more = detail(group) if detail else ""
        within = [*others, more] if more else others
        text = wrap_phrases(f"{first} ({', '.join(within)})" if within else first, characters)
        by_name[text + (f" {MARK}" if marks(group) else "")] = group
    return by_name


def _row_options(records: Sequence[Record], lead: str) -> list[str]:
    """Return the options in which rows differ and that their heads, or tasks, do not settle."""
    order = sorted(OPTIONS, key=lambda name: _ORIGINS.index(OPTIONS[name].origin))
    order.remove(lead)

    def settled_by(name: str, named: list[str]) -> list[str]:
        if name in ("label", "pooling") and lead == "task":
            return ["task"]
        by = ["task", *named] if lead == "task" else named  # which begin a name with what is known
        return {"user": [], "steps": ["fitter"], "head": ["head", *by], "others": by}[
            OPTIONS[name].origin
        ]

    return naming([options_of(record) for record in records], settled_by, order)


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


def _heads_of_one_setting(records: Sequence[Record]) -> set[str]:
    """Return the heads whose runs do not differ in the settings of head and decoder."""
    settings: dict[str, set[Any]] = {}
    for record in records:
        settings.setdefault(record.head, set()).add(option_of(record, "options"))
    return {head for head, options in settings.items() if len(options) == 1}


def _stated(options: dict[str, Any], alone: Collection[str]) -> dict[str, Any]:
    """Leave out what a row need not say.

    That is a missing ``shots`` or ``fraction`` where the other one says how much was read, the
    default settings of a head that has no others here, and what a solver does without.
    """
    for name in ("epochs", "evals", "batch_size", "lr"):
        if options.get(name, "") is None:
            del options[name]
    of_one_setting = options["head"] in alone if "head" in options else bool(alone)
    if of_one_setting and options.get("options", "") is None:
        del options["options"]
    for name, other in (("shots", "fraction"), ("fraction", "shots")):
        if name in options and other in options and options[name] is None:
            del options[name]
    return options


def diverged_text(records: Sequence[Record]) -> str:
    """Return ``; 1 of 5 runs diverged``, or nothing if none did."""
    diverged = sum(record.diverged for record in records)
    return f"; {diverged} of {len(records)} runs diverged" if diverged else ""


def line_length(width: float, size: Size = "axes.titlesize") -> int:
    """Return how many characters of a text about fill a width.

    Args:
        width: inches.
        size: of the text.
    """
    return max(4, int(width * 72 / (_EM * float(rcParams[size]))))


def wrap_phrases(text: str, characters: int) -> str:
    """Return text in lines of at most ``characters``, broken after a comma if possible.

    A phrase that is longer than a line is broken between its words.
    """
    phrases = " ".join(text.split()).split(", ")
    glued = ", ".join(p.replace(" ", "\xa0") if len(p) < characters else p for p in phrases)
    return wrap_words(glued, characters).replace("\xa0", " ")


def wrap_words(text: str, characters: int) -> str:
    """Return text in lines that end between words; an asterisk stays with what it stands for."""
    glued = text.replace(f"{MARK} ", f"{MARK}\xa0")
    lines = textwrap.fill(glued, characters, break_on_hyphens=False)
    return lines.replace(f"{MARK}\xa0", f"{MARK} ")
