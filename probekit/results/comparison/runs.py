"""A run: one setting of a results file, with a record per seed."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from probekit.errors import RecordError
from probekit.results.log import read_records, told_by_text
from probekit.results.record import Record
from probekit.results.summaries.grouping import (
    check_seeds,
    distinguishing,
    grouped,
    names_by_key,
    option_of,
    varying,
)
from probekit.results.summaries.select import matching
from probekit.results.summaries.wording import listed_text, value_text

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
    records = matching(read_records([file])[0], conditions)
    for key in (part for part in parts if "=" not in part):
        records = [record for record in records if record.key.startswith(key)]
        if not records:
            raise RecordError(f"{text}: no record has a key that starts with {key!r}.")
    _check_one_setting(records, text, parts)
    check_seeds(records, text)
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
    names = distinguishing(records, [])
    if not names:
        return
    found = "; ".join(f"{name}: {_values(records, name)}" for name in names)
    first = records[0]
    example = ",".join(f"{name}={value_text(name, option_of(first, name))}" for name in names)
    joint = "," if parts and "=" in parts[-1] else "#"
    raise RecordError(
        f"{text}: {len(records)} records that differ in {found}. A run is one setting with its "
        f"seeds: write {_typed(f'{text}{joint}{example}')}, or choose for both runs with --where "
        f"{_typed(example)}."
    )


def _typed(text: str) -> str:
    """Return text as a shell takes it: in quotes if it holds a space and the like."""
    plain = text.replace("#", "")  # harmless inside a word
    return text if shlex.quote(plain) == plain else shlex.quote(text)


def _values(records: Sequence[Record], name: str) -> str:
    values = [listed_text(name, value) for (value,) in grouped(records, [name])]
    more = f", ... ({len(values)})" if len(values) > _MANY else ""
    return ", ".join(values[:_MANY]) + more


def differing(a: RecordedRun, b: RecordedRun) -> dict[str, tuple[Any, Any]]:
    """Return the options in which two runs differ, with the value of either.

    Left out are the head, which the runs' names say, and layers and entry, which follow from
    other options.
    """
    one, two = a.records[0], b.records[0]
    names = [name for name in varying([one, two]) if name not in _SAID]
    return {name: (option_of(one, name), option_of(two, name)) for name in names}


def run_names(a: RecordedRun, b: RecordedRun) -> tuple[str, str]:
    """Return a name for either run: its head, and whatever tells it from the other one."""
    named = names_by_key([*a.records, *b.records])
    one, two = named[a.records[0].key], named[b.records[0].key]
    if one != two:
        return one, two
    return f"{one}, seed {a.seeds[0]}", f"{two}, seed {b.seeds[0]}"
