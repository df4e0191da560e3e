"""Rows of a figure that has no panels: each is named by all that tells it from the others."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from probekit.plots.panels import wrap_phrases
from probekit.plots.seeds import diverged_text, marked_text, seeds_text
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import MARK, marks
from probekit.results.summaries.grouping import (
    OPTIONS,
    follows,
    grouped,
    key_of,
    option_of,
    varying,
)
from probekit.results.summaries.wording import model_text, option_text, options_text

NAME_WIDTH = 28
"""Characters of a row's name before it is wrapped."""

_BY_HEAD = ("fitter", "select", "lr", "rates", "layers")
"""Options with a published value per head: such a value says no more than the head's name."""

_OF_DESCENT = ("epochs", "evals", "batch_size", "optimizer")
"""Options that a solver's run does not have."""

_BY_OTHERS = ("protocol", "metric", "entry", "labels_fingerprint")
"""Options that other options bring about; worth a word only where those do not tell all."""

_CHOSEN = tuple(
    name for name in OPTIONS if name not in ("head", *_OF_DESCENT, *_BY_HEAD, *_BY_OTHERS)
)
_UNSAID = {
    "shots": None,
    "fraction": None,
    "depth": None,
    "normalize": "none",
    "pooling": None,
    "options": None,
    "init": None,
    "freeze": False,
}
"""What a title leaves out: the value of a run that did not set the option."""


def rows(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records by row, each under its name, such as ``p32 (ner, 128 shots)``.

    A legend of one panel may leave out an option that happens to follow from the head; a row may
    not, since nothing else in the figure would say it. An asterisk follows the name of runs with a
    trouble, which ``runs_text`` says.
    """
    names = ["head", *row_options(records)]
    groups = grouped(records, names)
    models = {record.model for record in records}
    full = len({model_text(model) for model in models}) < len(models)  # two with one last name
    alone = _heads_of_one_setting(records)
    texts = [_name(_stated(dict(zip(names, key, strict=True)), alone), full) for key in groups]
    stars = [f" {MARK}" if marks(group) else "" for group in groups.values()]
    names = [text + star for text, star in zip(texts, stars, strict=True)]
    return dict(zip(names, groups.values(), strict=True))


def row_options(records: Sequence[Record]) -> list[str]:
    """Return the options in which rows differ and that their heads do not settle."""
    names = varying(records, _CHOSEN)
    names += varying([record for record in records if record.fitter == "adam"], _OF_DESCENT)
    for name in (*_BY_HEAD, *_BY_OTHERS):
        before = ["head", *names] if name in _BY_HEAD else names
        if not follows((key_of(record, before), getattr(record, name)) for record in records):
            names.append(name)
    return names


def shared_text(records: Sequence[Record]) -> str:
    """Return what all rows share, for the title."""
    names = [name for name in ("model", "task", "label", *_UNSAID) if not varying(records, [name])]
    shared = {name: option_of(records[0], name) for name in names}
    return options_text({n: v for n, v in shared.items() if n not in _UNSAID or v != _UNSAID[n]})


def runs_text(records: Sequence[Record], lost: Sequence[Record] = ()) -> str:
    """Return how many seeds the rows are over, and what is wrong with runs, for the label.

    Args:
        records: those that are drawn.
        lost: those that diverged, so that there is nothing to draw of them.
    """
    seeds = seeds_text(map(len, rows(records).values()))
    return seeds + diverged_text([*records, *lost]) + marked_text(records)


def _heads_of_one_setting(records: Sequence[Record]) -> set[str]:
    """Return the heads whose runs do not differ in the settings of head and decoder."""
    settings: dict[str, set[Any]] = {}
    for record in records:
        settings.setdefault(record.head, set()).add(option_of(record, "options"))
    return {head for head, found in settings.items() if len(found) == 1}


def _stated(options: dict[str, Any], alone: Collection[str]) -> dict[str, Any]:
    """Leave out what a row need not say.

    That is a missing ``shots`` or ``fraction`` where the other one says how much was read, the
    default settings of a head that has no others here, and what a solver does without.
    """
    for name in ("epochs", "evals", "batch_size", "lr"):
        if options.get(name, "") is None:
            del options[name]
    if options["head"] in alone and options.get("options", "") is None:
        del options["options"]
    for name, other in (("shots", "fraction"), ("fraction", "shots")):
        if name in options and other in options and options[name] is None:
            del options[name]
    return options


def _name(options: Mapping[str, Any], full_model: bool) -> str:
    head, *others = (
        value if full_model and name == "model" else option_text(name, value)
        for name, value in options.items()
    )
    return wrap_phrases(f"{head} ({', '.join(others)})" if others else head, NAME_WIDTH)
