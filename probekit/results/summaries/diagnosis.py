"""What the diagnoses of records say, in words: the one place that tables and figures ask.

A record's ``diagnosis`` holds plain values by name, all of them optional. Of every fitter:
``one_class`` (all dev predictions are one class), ``one_value`` (all dev predictions are one
number, or all that is true), ``absent`` and ``single`` (classes of train without an example in the
draw, and with just one). Of a solver: ``folds`` (where a draw allowed
fewer than the default), ``converged``, ``iterations``, ``gradient``, ``tolerance``, ``strength``
(of L2, the chosen one), ``edge`` (``strongest`` or ``weakest``, where that is an end of the path),
``objective``, ``strengths`` and ``strength_scores``; of a mixture, ``starts`` (how many),
``candidates`` and ``candidate_scores``, and the ``chosen`` one.
Of a run that trains the model from a solved head: ``start_score`` (dev score of that head over the
cached rows).
Of descent: ``best_is_last`` (the best dev score is that of the last step), ``falling`` (the loss
still fell at the end), ``edge`` (``lowest`` or ``highest`` rate of a search).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from probekit.base.selection import Selection
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped, series
from probekit.results.summaries.wording import numbers_text, range_text

SAID_FROM = 0.01
"""Share of a split from which a line says it: fewer texts move an accuracy by under a point."""

_DROPPED = "without duplicates"
"""What the protocol says of runs with ``--drop-duplicates``."""

_WORDS = {
    ("texts", False): "are in train too; leave them out with --drop-duplicates",
    ("pairs", False): "share a text with train; leave its pairs out with --drop-duplicates",
    ("texts", True): "occur twice or more; --drop-duplicates keeps equal ones together",
    ("pairs", True): "share a text with another one; --drop-duplicates keeps these together",
}
"""What is said of texts or pairs; True: of those of train, where a part of it chose."""


def copied_texts(records: Sequence[Record]) -> list[str]:
    """Return how much of what was scored was trained on as well; nothing where it is little.

    Texts were normalised before they were counted; a pair counts by each of its texts.

    Args:
        records: all that a table is made of.
    """
    shares: dict[tuple[tuple[str, bool], str], list[float]] = {}
    several = len({record.task for record in records}) > 1
    for record in [one for one in records if _DROPPED not in one.protocol]:
        for split, among in record.duplicates.items():
            counts = among.get("train", {})
            if counts.get("texts"):
                unit = "pairs" if "sharing" in counts else "texts"
                of = f"{record.task} {split}" if several else split
                share = counts.get("sharing", counts["normalised"]) / counts["texts"]
                key = (unit, split == "train"), f"{of} {unit}"
                shares.setdefault(key, []).append(share)
    said: dict[tuple[str, bool], list[str]] = {}
    for (kind, of), found in shares.items():
        if max(found) >= SAID_FROM:
            said.setdefault(kind, []).append(f"{_range_text(found)} % of {of}")
    return [f"{_listed(parts)} {_WORDS[kind]}" for kind, parts in said.items()]


def _range_text(shares: Sequence[float]) -> str:
    low, high = f"{100 * min(shares):.1f}", f"{100 * max(shares):.1f}"
    return high if low == high else f"{low} to {high}"


def _listed(parts: Sequence[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


SOLVERS = ("lbfgs", "ridge")
"""Fitters that find the optimum, as records name them."""

MARK = "*"
"""What marks a row in a table whose runs have a trouble."""

_PLACES = 4  # most settings that a line names; of more it says how many runs


def _edge(record: Record) -> str | None:
    edge = record.diagnosis.get("edge")
    return f"best at the edge of the search ({edge})" if edge else None


def _selected(record: Record) -> str | None:
    here = Selection.recorded(record.select) == Selection("dev") and record.test_score is None
    return "selected on the reported split" if here else None


def _flag(name: str, trouble: bool, text: str) -> Callable[[Record], str | None]:
    """Return the check that says ``text`` where the diagnosis holds ``trouble`` under a name."""
    return lambda record: text if record.diagnosis.get(name) is trouble else None


_TROUBLES: Sequence[Callable[[Record], str | None]] = (
    lambda record: "diverged" if record.diverged else None,
    _flag("converged", False, "not converged"),
    _edge,
    _flag("one_class", True, "one class predicted"),
    _flag("one_value", True, "one value predicted, or true"),
    _flag("best_is_last", True, "best score is that of the last step"),
    _flag("falling", True, "loss still falling at the end"),
    _selected,
)


def marks(records: Sequence[Record]) -> tuple[str, ...]:
    """Return what is wrong with any of some records, each trouble once, in a fixed order."""
    found = [{trouble(record) for record in records} for trouble in _TROUBLES]
    return tuple(text for texts in found for text in sorted(filter(None, texts)))


def marks_along(records: Sequence[Record], along: str) -> dict[Any, tuple[str, ...]]:
    """Return what is wrong with the runs of one curve, by their values of an option."""
    return {value: marks(group) for (value,), group in grouped(records, [along]).items()}


def notes(records: Sequence[Record]) -> list[str]:
    """Return the lines under a table: what is wrong with its runs, and what data they had.

    Nothing is said where nothing is wrong. A trouble is followed by the settings that have it and
    their depths, as ``not converged: last at depth 3 (2 of 5 seeds)``; of many settings by how
    many runs have it.

    Args:
        records: all that the table is made of.
    """
    troubles = "; ".join(_with_places(trouble, records) for trouble in marks(records))
    marked = f"{MARK} {troubles}" if troubles else ""
    said = (drawn_text, same_text, _folds_text, _given_text)
    lines = (marked, *(text(records) for text in said), *copied_texts(records))
    return [line for line in lines if line]


def _with_places(trouble: str, records: Sequence[Record]) -> str:
    hit = [record for record in records if trouble in marks([record])]
    if len(hit) == len(records):
        return trouble if len(records) == 1 else f"{trouble} in all {len(records)} runs"
    settings = series(records, given=["depth"])
    found = {n: [r for r in own if trouble in marks([r])] for n, own in settings.items()}
    alone = len(settings) == 1 and bool(_depths(records))  # a curve by itself needs no name
    places = [
        _place("" if alone else name, own, settings[name]) for name, own in found.items() if own
    ]
    if len(places) > _PLACES:
        return f"{trouble} in {len(hit)} of {len(records)} runs"
    return f"{trouble}{'' if alone else ':'} {', '.join(places)}"


def _place(name: str, hit: Sequence[Record], members: Sequence[Record]) -> str:
    """Return a setting with the depths at which it was hit, and how many seeds, if not all."""
    at = {record.depth for record in hit}
    there = [record for record in members if record.depth in at]
    what = "seeds" if len(at) == 1 else "runs"
    count = "" if len(hit) == len(there) else f"({len(hit)} of {len(there)} {what})"
    head, _, others = name.partition(", ")
    return " ".join(
        part for part in (head, others and f"({others})", _depths_text(hit, members), count) if part
    )


def _depths_text(hit: Sequence[Record], members: Sequence[Record]) -> str:
    """Return ``at depths 0 to 4``; nothing for a setting that was not run by depth."""
    if not _depths(members):
        return ""
    found = _depths(hit)
    parts = [f"depth{'s' * (len(found) > 1)} {numbers_text(found, _depths(members))}"]
    whole = ["all layers"] * any(record.depth is None for record in hit)
    return "at " + " and ".join((parts if found else []) + whole)


def _depths(records: Sequence[Record]) -> list[int]:
    return sorted({record.depth for record in records if record.depth is not None})


def drawn_text(records: Sequence[Record]) -> str:
    """Return which classes of train a draw left out, or has one example of; or nothing."""
    parts = [
        _classes_text(records, "absent", lambda classes, _: f"drawn without {classes}"),
        _classes_text(records, "single", lambda classes, have: f"{classes} {have} one example"),
    ]
    return "; ".join(part for part in parts if part)


def _folds_text(records: Sequence[Record]) -> str:
    """Return how many runs had fewer folds than the others, for want of examples; or nothing."""
    counts = [_count(record.diagnosis, "folds") for record in records]
    few = [count for count in counts if count]
    if not few:
        return ""
    runs = f"{len(few)} of {len(counts)} runs"
    return f"{range_text(few)} folds in {runs}, whose draws have no class with more examples"


def _given_text(records: Sequence[Record]) -> str:
    """Return which strengths of L2 nothing chose, so that others may score higher; or nothing."""
    given = {one.l2 for one in records if one.fitter in SOLVERS and one.l2 is not None}
    values = ", ".join(f"{value:g}" for value in sorted(given, reverse=True))
    return f"L2 {values} given, not chosen: without --l2 it is" * bool(given)


def same_for_all_seeds(record: Record) -> bool:
    """Say whether a run was solved on all of train: then nothing in it is drawn."""
    drawn = record.shots is not None or record.fraction not in (None, 1)
    return record.fitter in SOLVERS and not drawn


def same_text(records: Sequence[Record]) -> str:
    """Return which heads were solved on all of train, where no seed differs; or nothing."""
    seeds: dict[str, set[int]] = {}
    for record in records:
        if same_for_all_seeds(record):
            seeds.setdefault(record.head, set()).add(record.seed)
    heads = [head for head, found in seeds.items() if len(found) > 1]
    return f"no seed differs from another: {', '.join(heads)} (solved on all of train)" * bool(
        heads
    )


def _classes_text(
    records: Sequence[Record], name: str, phrase: Callable[[str, str], str]
) -> str | None:
    counts = [_count(record.diagnosis, name) for record in records]
    some = [count for count in counts if count]
    if not some:
        return None
    one = max(some) == 1
    text = phrase(f"{range_text(some)} {'class' if one else 'classes'}", "has" if one else "have")
    return text if len(some) == len(counts) else f"{text} in {len(some)} of {len(counts)} runs"


def _count(diagnosis: Mapping[str, object], name: str) -> int:
    value = diagnosis.get(name, 0)
    return value if isinstance(value, int) else 0
