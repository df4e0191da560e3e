"""Choose records by the values of their fields."""

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from probekit.errors import OptionError, RecordError
from probekit.registry import choose
from probekit.results.record import Record

_FIELDS = {field.name: field for field in fields(Record)}


def select(records: Sequence[Record], conditions: Sequence[str]) -> list[Record]:
    """Return the records that meet every condition.

    Args:
        records: any records.
        conditions: ``field=value`` each; values are compared as numbers where both are numbers,
            ``none`` stands for an unset field.

    Raises:
        OptionError: a condition is not of that form.
        UnknownNameError: there is no such field.
        RecordError: no record is left; the message lists the values that there are.
    """
    chosen = list(records)
    for condition in conditions:
        name, equals, text = condition.partition("=")
        if not equals:
            raise OptionError(f"--where {condition!r}: write field=value, such as shots=128.")
        choose("record field", name, _FIELDS)
        kept = [record for record in chosen if getattr(record, name) == _value(text)]
        if chosen and not kept:
            found = sorted({str(getattr(record, name)) for record in chosen})
            raise RecordError(
                f"--where {condition}: no such record; {name} is one of: {', '.join(found)}."
            )
        chosen = kept
    return chosen


def _value(text: str) -> Any:
    if text.lower() == "none":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
