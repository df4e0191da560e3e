"""Group records over seeds, and put baselines beside the heads that they belong to.

A records file holds the baselines of `probekit train --baselines` as records of their own. What
belongs to one head, and to one of its seeds, is a score of that head.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from probekit.base.fingerprint import digest
from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.metrics import COMPRESSION
from probekit.results.record import Record
from probekit.results.summaries import wording

Key = tuple[Any, ...]

USUAL_EVALS = 10
"""What the record of a training without ``evals`` had; a baseline has none."""

DATA = ("model", "task", "label", "shots", "fraction", "method", "normalize", "fitter")
"""Options that a name says wherever they differ: two values of one are two things."""

_AMOUNTS = ("shots", "fraction", "depth")
"""Axes; an option that does not depend on them is named though it changes along one."""

BASELINES = ("majority", "memorised", "all labels")
"""What stands in a record in place of a head, and before all heads in tables and legends."""


@cache
def head_order() -> tuple[str, ...]:
    """Return heads in the order of tables and legends; one that is unknown comes after these."""
    from probekit.probe.heads import HEADS

    return (*BASELINES, *HEADS)


def key_of(record: Record, names: Sequence[str]) -> Key:
    """Return the record's values of the named fields."""
    return tuple(option_of(record, name) for name in names)


def option_of(record: Record, name: str) -> Any:
    """Return a record's value of an option; hashable, and None if unset.

    Settings are one text, and so are the rates of groups; an entry is what is unusual of it, and
    texts are one digest.
    """
    if name == "entry":
        return wording.entry_text(record.entry, record.seen)
    if name == "evals" and record.evals is None:
        return USUAL_EVALS if record.epochs else None
    value = getattr(record, name)
    return (_TEXT_OF[name](value) if value else None) if name in _TEXT_OF else value


_TEXT_OF: Mapping[str, Callable[[Any], str]] = {
    "rates": wording.rates_text,
    "texts": digest,
    "plugins": wording.plugins_text,
    "options": wording.settings_text,
}


def grouped(records: Iterable[Record], names: Sequence[str]) -> dict[Key, list[Record]]:
    """Return the records by their values of ``names``, in an order that depends on values alone.

    Raises:
        OptionError: a name is no option of a record; the message lists them.
    """
    for name in names:
        choose("option", name, wording.OPTIONS)
    groups: dict[Key, list[Record]] = {}
    for record in records:
        groups.setdefault(key_of(record, names), []).append(record)
    ranks = {key: [_rank(*pair) for pair in zip(names, key, strict=True)] for key in groups}
    return {key: groups[key] for key in sorted(groups, key=ranks.__getitem__)}


def _rank(name: str, value: Any) -> tuple[int, Any]:
    """Sort heads as in ``HEADS``, raw layers before others, numbers by size, None last."""
    if value is None:
        return (2, 0)
    if name == "head" and value in (order := head_order()):
        return (0, order.index(value))
    if (name, value) == ("normalize", "none"):
        return (0, 0)
    return (1, value)


def options_of(record: Record) -> dict[str, Any]:
    """Return a record's values of all options."""
    return {name: option_of(record, name) for name in wording.OPTIONS}


def varying(records: Sequence[Record], names: Iterable[str] = wording.OPTIONS) -> list[str]:
    """Return those of ``names`` that have more than one value."""
    return [name for name in names if len({option_of(record, name) for record in records}) > 1]


def naming(
    settings: Sequence[Mapping[str, Any]],
    settled_by: Callable[[str, list[str]], Iterable[str]],
) -> list[str]:
    """Return the options in which settings differ, unless others settle them: what names tell.

    Args:
        settings: all options by name, of a record or of a row of a table.
        settled_by: given an option, and those before it that are named, the options that can
            settle it: it is left out where it is a function of these. None of them leaves it out
            only where it does not vary.
    """
    named: list[str] = []
    for name in wording.OPTIONS:
        by = tuple(settled_by(name, named))
        pairs = {(tuple(map(options.get, by)), options[name]) for options in settings}
        if len(pairs) > len({causes for causes, _ in pairs}):  # one value does not follow
            named.append(name)
    return named


def distinguishing(records: Sequence[Record], given: Sequence[str]) -> list[str]:
    """Return the options that, beside ``given``, tell records apart up to their seed.

    An option that is settled by the ones before it is left out, such as a learning rate that
    depends on the head alone; but none of `DATA`, save a label by its task: German scores with 8
    shots and English ones with 128 are no row of two columns. Nor are those of two decoders.
    """

    def settled_by(name: str, named: list[str]) -> list[str]:
        if name in DATA and name not in given:
            return ["task"] if name == "label" and "task" in (*named, *given) else []
        follows = wording.OPTIONS[name].by_amount or name in given
        return [*(option for option in given if follows or option not in _AMOUNTS), *named]

    settings = [options_of(record) for record in records]
    rules = {options["select"] for options in settings} - {None}
    for options in settings if len(rules) == 1 else ():
        if 0 in (options["shots"], options["fraction"]):  # nothing to choose by it
            (options["select"],) = rules
    return naming(settings, settled_by)


def series(
    records: Sequence[Record], given: Sequence[str] = (), lead: Sequence[str] = ("head",)
) -> dict[str, list[Record]]:
    """Return the records by curve (or row, or column), each under a name for a legend.

    A curve is a head and whatever else must be said to tell records apart.

    Args:
        records: any records.
        given: options that are shown otherwise: by the panel, or along an axis.
        lead: options that a name begins with, whether they differ or not.
    """
    names = [*lead, *distinguishing(records, [*lead, *given])]
    groups = grouped(records, names)
    options = [dict(zip(names, key, strict=True)) for key in groups]
    texts: list[str] = []
    for how in ({}, {"full_model": True}, {"full_model": True, "exact": True}):
        if len(set(texts)) < len(groups):
            texts = [wording.options_text(values, **how) for values in options]
    return dict(zip(texts, groups.values(), strict=True))


def names_by_key(records: Sequence[Record]) -> dict[str, str]:
    """Return what tells each record from others of another setting, by its key."""
    return {record.key: name for name, members in series(records).items() for record in members}


def full_depth(records: Sequence[Record]) -> list[Record]:
    """Return the records that are not of a truncated depth; all where there are no others."""
    return [record for record in records if record.depth is None] or list(records)


def holding(records: Sequence[Record], holds: Callable[[Record], Any], absent: str) -> list[Record]:
    """Return the records that hold something; of full and truncated depths, the full ones.

    Args:
        records: any records.
        holds: what is asked of each; nothing (None, or empty) where it holds none.
        absent: what it is, and how records come to hold it, for the message.

    Raises:
        RecordError: no record holds any.
    """
    held = [record for record in records if holds(record)]
    if not held:
        raise RecordError(f"none of {len(records)} records holds {absent}")
    return full_depth(held)


def check_seeds(records: Sequence[Record], what: str) -> None:
    """Refuse a group in which a seed occurs twice: its mean would not be over seeds.

    Args:
        records: the group.
        what: the group in words, for the message.

    Raises:
        RecordError: names the options that differ inside the group.
    """
    if len({record.seed for record in records}) == len(records):
        return
    differing = ", ".join(varying(records)) or "no option; remove the duplicates"
    raise RecordError(
        f"{what}: {len(records)} records share seeds, so a mean over seeds would mix runs; "
        f"they differ in {differing}. Choose some (--where name=value), or group by these too."
    )


def check_same_seeds(settings: Iterable[tuple[str, Sequence[Record]]], why: str) -> None:
    """Refuse settings of which one has other seeds than the first.

    Args:
        settings: the name of each, which others may have too, and its records.
        why: they need the same, for the message.

    Raises:
        RecordError: names the two, and says what to do.
    """
    (first, expected), *others = (
        (name, ", ".join(map(str, sorted(record.seed for record in records))))
        for name, records in settings
    )
    for name, seeds in others:
        if seeds != expected:
            raise RecordError(
                f"{first} has seeds {expected}, {name} has {seeds}: {why}. Train the missing ones, "
                "or choose with --where seed=0."
            )


RANDOM = "random weights"

Scores = Mapping[str, float]


@dataclass(frozen=True)
class _Sort:
    """One sort of baseline.

    Attributes:
        field: what says that a record is one: an option that is text.
        mark: what stands there; without it, it is the value of the head that it belongs to.
        apart: other options in which it differs from its head; it shares the seed.
        scores: what it says of its head, given both.
    """

    field: str
    mark: re.Pattern[str]
    apart: tuple[str, ...]
    scores: Callable[[Record, Record], Scores]

    def is_one(self, record: Record) -> bool:
        """Say whether a record is a baseline of this sort."""
        return bool(self.mark.search(getattr(record, self.field)))

    def key(self, record: Record) -> Key:
        """Return what a baseline and its head share."""
        shared = {n: v for n, v in options_of(record).items() if n not in self.apart}
        if self.field in shared and self.is_one(record):
            shared[self.field] = self.mark.sub("", shared[self.field])
        return (record.seed, *shared.values())


def _reported(head: Record, baseline: Record) -> float:
    """Return a baseline's score on test if the head has one there, else on dev."""
    tested = None if head.test_score is None else baseline.test_score
    return baseline.eval_score if tested is None else tested


def _control_scores(head: Record, control: Record) -> Scores:
    name = f"{'dev' if head.test_score is None else 'test'}/accuracy"
    if name not in head.scores or name not in control.scores:
        return {}
    real, random = head.scores[name], control.scores[name]
    return {"accuracy": real, "control/accuracy": random, "selectivity": real - random}


def _code_scores(head: Record, code: Record) -> Scores:
    names = ("bits per label", COMPRESSION)
    return {name: code.scores[name] for name in names if name in code.scores}


_GUESSED = (
    "head", "decoder", "options", "init", "freeze", "fitter", "select", "l2", "epochs", "evals",
    "lr", "rates", "batch_size", "optimizer", "layers", "depth", "normalize",
)  # fmt: skip
"""What a guess does not have."""

_GUESSES = [
    _Sort(
        "head",
        re.compile(f"^{name}$"),
        _GUESSED,
        lambda head, guess: {guess.head: _reported(head, guess)},
    )
    for name in BASELINES
]
_DRAWN = _Sort(
    "model",
    re.compile(r"-random\d+$"),
    ("entry", "labels_fingerprint"),
    lambda head, random: {RANDOM: _reported(head, random)},
)
_CONTROL = _Sort(
    "label", re.compile(r" \(control \d+\)$"), ("labels_fingerprint", "metric"), _control_scores
)
_CODE = _Sort("protocol", re.compile("^online code, "), ("metric",), _code_scores)
_SORTS = (*_GUESSES, _DRAWN, _CONTROL, _CODE)


def without_baselines(records: Sequence[Record]) -> list[Record]:
    """Return the records that are no baseline."""
    return [record for record in records if not any(sort.is_one(record) for sort in _SORTS)]


def is_baseline(record: Record) -> bool:
    """Say whether ``train --baselines`` makes a record beside that of a head."""
    guessed = record.head in BASELINES or record.fitter == "none"
    return guessed or _CODE.is_one(record)


def rivals(records: Sequence[Record]) -> list[Record]:
    """Return the baselines that are scored as heads are: guesses, and random weights."""
    return [record for record in records if record.head in BASELINES or _DRAWN.is_one(record)]


def beside_heads(records: Sequence[Record], kept: Sequence[Record] = ()) -> list[Record]:
    """Return records with the scores of their baselines among their own ``scores``.

    Baselines are those of the same options and seed: ``majority`` and ``memorised`` (guesses
    without features), ``random weights``, ``accuracy``, ``control/accuracy`` and ``selectivity``,
    ``bits per label`` and ``compression``. Each is left out as a record where it belongs to a head
    among the others, and stays where it belongs to none.

    Args:
        records: any records.
        kept: those that stay as they are, whatever they belong to.
    """
    stay = {record.key for record in kept}
    by_record_key = {record.key: record for record in records}
    heads = without_baselines(records)
    for sort in _SORTS:
        baselines = [record for record in records if sort.is_one(record) and record.key not in stay]
        by_key = {sort.key(baseline): baseline for baseline in baselines}
        for head in heads if by_key else ():
            baseline = by_key.get(sort.key(head))
            if baseline is not None and (scores := sort.scores(head, baseline)):
                held = by_record_key[head.key]
                diverged = held.diverged or baseline.diverged
                merged = {**scores, **held.scores}  # what training wrote goes before
                by_record_key[head.key] = replace(held, scores=merged, diverged=diverged)
                by_record_key.pop(baseline.key, None)
    return list(by_record_key.values())
