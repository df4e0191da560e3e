"""Runs: settings of a results file, with a record per seed; which are compared with which."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Self

from probekit.errors import OptionError, RecordError
from probekit.results.log import read_records, told_by_text
from probekit.results.record import Record
from probekit.results.summaries import grouping, wording
from probekit.results.summaries.select import condition_names, matching

_MANY = 6  # values that a message lists
_SAID = ("head", "layers", "entry")


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """One setting of a results file, with one record per seed.

    Attributes:
        text: what the user typed.
        records: by seed, ascending.
    """

    text: str
    records: tuple[Record, ...]

    @classmethod
    def of(cls, text: str, records: Sequence[Record]) -> Self:
        """Return the run of some records, one per seed in any order.

        Args:
            text: what messages call it.
            records: of one setting.
        """
        return cls(text=text, records=tuple(sorted(records, key=lambda record: record.seed)))

    @property
    def seeds(self) -> list[int]:
        """The seeds, ascending."""
        return [record.seed for record in self.records]


Pair = tuple[RecordedRun, RecordedRun]


def choose_run(text: str, where: Sequence[str] = ()) -> RecordedRun:
    """Return the run that the user means.

    Args:
        text: ``FILE``, or ``FILE#PART#PART...``: a part is a condition such as ``head=p32`` (or
            several, with commas between them), or the first digits of a record's key.
        where: conditions beside.

    Raises:
        MissingFileError: there is no such file.
        OptionError: a condition is malformed.
        RecordError: no record is left, or records of more than one setting.
    """
    file, parts = _split(text)
    conditions = [*where, *(part for part in parts if "=" in part)]
    records = matching(told_by_text(read_records([file])[0]), conditions)
    for key in (part for part in parts if "=" not in part):
        records = [record for record in records if record.key.startswith(key)]
        if not records:
            raise RecordError(f"{text}: no record has a key that starts with {key!r}.")
    _check_one_setting(records, text, parts)
    grouping.check_seeds(records, text)
    return RecordedRun.of(text, records)


def under_one_name(a: RecordedRun, b: RecordedRun) -> tuple[RecordedRun, RecordedRun]:
    """Return two runs of which one text has one name, though their files say two."""
    records = told_by_text([*a.records, *b.records])
    cut = len(a.records)
    return replace(a, records=tuple(records[:cut])), replace(b, records=tuple(records[cut:]))


def _split(text: str) -> tuple[str, list[str]]:
    """Return the file and the parts after it; a path may hold a ``#`` as well."""
    pieces = text.split("#")
    ends = range(len(pieces), 0, -1)
    end = next((end for end in ends if Path("#".join(pieces[:end])).exists()), 1)
    return "#".join(pieces[:end]), pieces[end:]


def _check_one_setting(records: Sequence[Record], text: str, parts: Sequence[str]) -> None:
    names = grouping.distinguishing(records, [])
    if not names:
        return
    differing = "; ".join(f"{name}: {_values(records, name)}" for name in names)
    first = records[0]
    values = {name: wording.value_text(name, grouping.option_of(first, name)) for name in names}
    example = ",".join(f"{name}={value}" for name, value in values.items())
    joint = "," if parts and "=" in parts[-1] else "#"
    raise RecordError(
        f"{text}: {len(records)} records that differ in {differing}. A run is one setting with its "
        f"seeds: write {_typed(f'{text}{joint}{example}')}, or choose for both runs with --where "
        f"{_typed(example)}."
    )


def _typed(text: str) -> str:
    """Return text as a shell takes it: in quotes if it holds a space and the like."""
    plain = text.replace("#", "")  # harmless inside a word
    return text if shlex.quote(plain) == plain else shlex.quote(text)


def _values(records: Sequence[Record], name: str) -> str:
    values = [wording.listed_text(name, value) for (value,) in grouping.grouped(records, [name])]
    more = f", ... ({len(values)})" if len(values) > _MANY else ""
    return ", ".join(values[:_MANY]) + more


def differing(a: RecordedRun, b: RecordedRun) -> dict[str, tuple[Any, Any]]:
    """Return the options in which two runs differ, with the value of either.

    Left out are the head, which the runs' names say, and layers and entry, which follow from
    other options.
    """
    first, second = a.records[0], b.records[0]
    names = [name for name in grouping.varying([first, second]) if name not in _SAID]
    return {
        name: (grouping.option_of(first, name), grouping.option_of(second, name)) for name in names
    }


def run_names(a: RecordedRun, b: RecordedRun) -> tuple[str, str]:
    """Return a name for either run: its head, and whatever tells it from the other one."""
    named = grouping.names_by_key([*a.records, *b.records])
    name_a, name_b = named[a.records[0].key], named[b.records[0].key]
    if name_a != name_b:
        return name_a, name_b
    return f"{name_a}, seed {a.seeds[0]}", f"{name_b}, seed {b.seeds[0]}"


SAME_DATA = (
    "model", "task", "label", "texts", "labels_fingerprint", "entry", "protocol", "shots",
    "fraction", "metric",
)  # fmt: skip
"""What two settings that are compared with each other have in common."""

REFERENCE = "last"
"""The head that others are compared with, if none is named."""

_WITH_IT = {
    "model": ("entry", "layers", "labels_fingerprint"),
    "task": ("entry", "texts", "labels_fingerprint"),
}
"""What differs as well where a reference of another model or task is asked for."""


def settings(records: Sequence[Record]) -> dict[grouping.Key, RecordedRun]:
    """Return the runs of some records, named by what tells them apart, by their options.

    Args:
        records: any records.
    """
    names = grouping.names_by_key(records)
    return {
        key: RecordedRun.of(names[members[0].key], members)
        for key, members in grouping.grouped(records, tuple(wording.OPTIONS)).items()
    }


def all_pairs(runs: Mapping[grouping.Key, RecordedRun]) -> dict[grouping.Key, list[Pair]]:
    """Return every pair of settings of the same data, by the data.

    Raises:
        RecordError: there is none.
    """
    together = _by_data(runs, SAME_DATA)
    pairs = {data: list(combinations(alike, 2)) for data, alike in together.items()}
    pairs = {data: of_data for data, of_data in pairs.items() if of_data}
    if not pairs:
        none = f"{len(runs)} settings, but no two were run on the same data"
        if len(runs) == 1:
            none = "one setting, and a pair needs two"
        raise RecordError(
            f"{none}: pairs share model, task, labels, shots and fraction. Give the records of "
            "several heads."
        )
    return pairs


def with_reference(
    records: Sequence[Record], runs: Mapping[grouping.Key, RecordedRun], against: str | None
) -> dict[grouping.Key, list[Pair]]:
    """Return every setting with its reference, by the data that both were run on.

    A reference meets the condition, and shares data and depth with the setting, save for what the
    condition names. Unless that names a method, a run from the cache goes before one whose model
    ran, and that before one whose model was trained: what was trained is held against what was not.
    Of several as good the one that has the most other options in common.

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
    free = {*named, *(other for name in named for other in _WITH_IT.get(name, ()))}
    same = [name for name in (*SAME_DATA, "depth") if name not in free]
    pairs: dict[grouping.Key, list[Pair]] = {}
    for data, members in _by_data(runs, same).items():
        meeting = [run for run in members if run.records[0].key in chosen]
        ranks = [0 if "method" in named else _trained(run.records[0]) for run in meeting]
        near = [run for run, rank in zip(meeting, ranks, strict=True) if rank == min(ranks)]
        others = [run for run in members if not any(run is reference for reference in near)]
        if near and others:
            pairs[data] = [(run, _nearest(run, near, condition)) for run in others]
    if not pairs:
        raise RecordError(
            f"--against {condition}: no other setting was run on the same data and at the same "
            "depth. Give records that differ in head or options."
        )
    return pairs


def _trained(record: Record) -> int:
    """Return how much of a model a run trained: 0 from the cache, 1 of one that ran, else 2."""
    return 0 if record.method is None else 1 if record.n_backbone_params == 0 else 2


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


def _by_data(
    runs: Mapping[grouping.Key, RecordedRun], same: Sequence[str]
) -> dict[grouping.Key, list[RecordedRun]]:
    groups: dict[grouping.Key, list[RecordedRun]] = {}
    for run in runs.values():
        first = run.records[0]
        groups.setdefault(tuple(grouping.option_of(first, name) for name in same), []).append(run)
    return groups


def _nearest(run: RecordedRun, references: Sequence[RecordedRun], condition: str) -> RecordedRun:
    """Return the reference with the most options in common."""
    apart = [
        len(grouping.varying([run.records[0], reference.records[0]])) for reference in references
    ]
    nearest = [reference for reference, n in zip(references, apart, strict=True) if n == min(apart)]
    if len(nearest) == 1:
        return nearest[0]
    first, second = (run.records[0] for run in nearest[:2])
    differing = {
        name: grouping.option_of(first, name) for name in grouping.varying([first, second])
    }
    example = ",".join(f"{name}={value}" for name, value in differing.items() if value is not None)
    raise OptionError(
        f"{run.text} could be compared with {len(nearest)} references, which differ in "
        f"{', '.join(differing)}; name one, such as --against {condition},{example}, or choose "
        "with --where."
    )


def reference_text(pairs: Mapping[grouping.Key, Sequence[Pair]], records: Sequence[Record]) -> str:
    """Return what rows were compared with, and in what some differ from it beside the head.

    Args:
        pairs: what ``with_reference`` returned.
        records: all records of the table.
    """
    every = [pair for of_data in pairs.values() for pair in of_data]
    firsts = {id(reference): reference.records[0] for _, reference in every}.values()
    names = {_brief(record, records) for record in firsts}
    heads = " or ".join(sorted({record.head for record in firsts}))
    name = names.pop() if len(names) == 1 else f"{heads} with the options closest to a row's,"
    varied = dict.fromkeys(
        option
        for run, reference in every
        for option in _apart(run.records[0], reference.records[0])
    )
    more = [option for option in varied if option not in _FOLLOWS]
    also = f" (some differ from it in {', '.join(more)} too)" if more else ""
    return f"{name} on the same data{also}"


def _apart(record: Record, other: Record) -> list[str]:
    """Return the options in which two records differ, but for what their methods settle."""
    names = grouping.varying([record, other])
    return [
        n for n in names if "method" not in names or "method" not in wording.OPTIONS[n].settled_by
    ]


_FOLLOWS = ("head", "layers", "entry", "texts", "labels_fingerprint", "metric")


def _brief(reference: Record, records: Sequence[Record]) -> str:
    """Return a reference's head, and its options where others of that head have other ones."""
    same = [record for record in records if record.head == reference.head]
    names = grouping.distinguishing(same, ["head", "layers", *SAME_DATA])
    values: dict[str, Any] = {name: grouping.option_of(reference, name) for name in names}
    text = wording.options_text(values)
    return ", ".join(part for part in (wording.option_text("head", reference.head), text) if part)
