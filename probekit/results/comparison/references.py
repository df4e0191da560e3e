"""Which settings are compared with which: with a reference on the same data, or all of them."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from probekit.errors import OptionError, RecordError
from probekit.results.comparison.judging import Pair
from probekit.results.comparison.runs import RecordedRun
from probekit.results.record import Record
from probekit.results.summaries.grouping import Key, grouped, names_by_key, option_of, varying
from probekit.results.summaries.select import condition_names, matching
from probekit.results.summaries.wording import OPTIONS, option_text, options_text

SAME_DATA = (
    "model", "task", "label", "texts", "labels_fingerprint", "entry", "protocol", "shots",
    "fraction", "metric",
)  # fmt: skip
"""What two settings that are compared with each other have in common."""

REFERENCE = "last"
"""The head that others are compared with, if none is named."""

_SAID = {
    "model": ("entry", "layers", "labels_fingerprint"),
    "task": ("entry", "texts", "labels_fingerprint"),
}
"""What differs as well where a reference of another model or task is asked for."""


def settings(records: Sequence[Record]) -> dict[Key, RecordedRun]:
    """Return the runs of some records, named by what tells them apart, by their options.

    Args:
        records: any records.
    """
    names = names_by_key(records)
    return {
        key: RecordedRun.of(names[own[0].key], own)
        for key, own in grouped(records, tuple(OPTIONS)).items()
    }


def all_pairs(runs: Mapping[Key, RecordedRun]) -> dict[Key, list[Pair]]:
    """Return every pair of settings of the same data, by the data.

    Raises:
        RecordError: there is none.
    """
    together = _by_data(runs, SAME_DATA)
    pairs = {data: list(combinations(own, 2)) for data, own in together.items() if len(own) > 1}
    if not pairs:
        none = (
            "one setting, and a pair needs two"
            if len(runs) == 1
            else f"{len(runs)} settings, no two of which were run on the same data"
        )
        raise RecordError(
            f"{none}: pairs share model, task, labels, shots and fraction. Give the records of "
            "several heads."
        )
    return pairs


def with_reference(
    records: Sequence[Record], runs: Mapping[Key, RecordedRun], against: str | None
) -> dict[Key, list[Pair]]:
    """Return every setting with its reference, by the data that both were run on.

    A reference meets the condition, and shares data and depth with the setting, save for what the
    condition names; of several the one that has the most other options in common.

    Args:
        records: all records of the runs.
        runs: as ``settings`` returns them.
        against: a head, or conditions such as ``head=last,normalize=none``; None is ``last``.

    Raises:
        OptionError: a condition is malformed, or several references are as near.
        RecordError: no record meets the condition, or no other setting has a reference.
    """
    condition = _condition(against)
    chosen = {record.key for record in references(records, against)}
    named = condition_names([condition])
    free = {*named, *(other for name in named for other in _SAID.get(name, ()))}
    same = [name for name in (*SAME_DATA, "depth") if name not in free]
    pairs: dict[Key, list[Pair]] = {}
    for data, own in _by_data(runs, same).items():
        near = [run for run in own if run.records[0].key in chosen]
        others = [run for run in own if run.records[0].key not in chosen]
        if near and others:
            pairs[data] = [(run, _nearest(run, near, condition)) for run in others]
    if not pairs:
        raise RecordError(
            f"--against {condition}: no other setting was run on the same data, and to the same "
            "depth, as one of these. Give records that differ in head or options."
        )
    return pairs


def _condition(against: str | None) -> str:
    text = REFERENCE if against is None else against
    return text if "=" in text.partition(",")[0] else f"head={text}"


def references(records: Sequence[Record], against: str | None = None) -> list[Record]:
    """Return the records that others are compared with.

    Raises:
        OptionError: a condition is malformed.
        RecordError: there is none.
    """
    try:
        return matching(records, [_condition(against)])
    except RecordError as error:
        hint = "" if against else " Name a reference with --against, such as --against mean."
        raise RecordError(f"no reference to compare with: {error}{hint}") from None


def _by_data(runs: Mapping[Key, RecordedRun], same: Sequence[str]) -> dict[Key, list[RecordedRun]]:
    groups: dict[Key, list[RecordedRun]] = {}
    for run in runs.values():
        first = run.records[0]
        groups.setdefault(tuple(option_of(first, name) for name in same), []).append(run)
    return groups


def _nearest(run: RecordedRun, references: Sequence[RecordedRun], condition: str) -> RecordedRun:
    """Return the reference with the most options in common."""
    apart = [len(varying([run.records[0], one.records[0]])) for one in references]
    nearest = [one for one, n in zip(references, apart, strict=True) if n == min(apart)]
    if len(nearest) == 1:
        return nearest[0]
    one, two = (run.records[0] for run in nearest[:2])
    differing = {name: option_of(one, name) for name in varying([one, two])}
    example = ",".join(f"{name}={value}" for name, value in differing.items() if value is not None)
    raise OptionError(
        f"{run.text} could be compared with {len(nearest)} references, which differ in "
        f"{', '.join(differing)}; name one, such as --against {condition},{example}, or choose "
        "with --where."
    )


def reference_text(pairs: Mapping[Key, Sequence[Pair]], records: Sequence[Record]) -> str:
    """Return what rows were compared with, and in what some differ from it beside the head.

    Args:
        pairs: what ``with_reference`` returned.
        records: all records of the table.
    """
    found = {id(two): two.records[0] for own in pairs.values() for _, two in own}
    names = {_brief(one, records) for one in found.values()}
    heads = " or ".join(sorted({one.head for one in found.values()}))
    name = names.pop() if len(names) == 1 else f"{heads} at the options nearest to a row's,"
    varied = dict.fromkeys(
        option
        for own in pairs.values()
        for one, two in own
        for option in varying([one.records[0], two.records[0]])
    )
    more = [option for option in varied if option not in _FOLLOWS]
    also = f" (some differ from it in {', '.join(more)} too)" if more else ""
    return f"{name} on the same data{also}"


_FOLLOWS = ("head", "layers", "entry", "texts", "labels_fingerprint", "metric")


def _brief(reference: Record, records: Sequence[Record]) -> str:
    """Return a reference's head, and its options where others of that head have other ones."""
    same = [record for record in records if record.head == reference.head]
    names = [
        name
        for name in OPTIONS
        if name not in (*SAME_DATA, "layers", "head")
        and len({option_of(record, name) for record in same}) > 1
    ]
    values: dict[str, Any] = {name: option_of(reference, name) for name in names}
    text = options_text(values)
    return ", ".join(part for part in (option_text("head", reference.head), text) if part)
