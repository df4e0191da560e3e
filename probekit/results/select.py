"""Select records by the values of their options, such as ``shots=8,128`` and ``head=p32``."""

from collections.abc import Sequence

from probekit.errors import OptionError, RecordError
from probekit.registry import choose
from probekit.results.groups import OPTIONS, grouped, option_of
from probekit.results.names import model_text, value_text
from probekit.results.record import Record

_NAMES = dict.fromkeys((*OPTIONS, "seed"))


def select(records: Sequence[Record], conditions: Sequence[str]) -> list[Record]:
    """Return the records that meet every condition.

    Args:
        records: any records.
        conditions: each ``name=value`` or ``name=value,value``; a value is written as tables
            print it (``all`` or ``none`` for an option that was not set), a number in any
            notation, a model by its name or the last part of it.

    Raises:
        OptionError: a condition is malformed.
        UnknownNameError: a name is no option of a record.
        RecordError: no record is left; the message lists the values that occur.
    """
    kept = list(records)
    for condition in conditions:
        name, equals, values = condition.partition("=")
        if not equals or not values:
            raise OptionError(f"condition {condition!r}: write name=value, such as shots=128.")
        choose("option", name, _NAMES)
        wanted = [value.strip() for value in values.split(",")]
        left = [record for record in kept if any(_is(record, name, value) for value in wanted)]
        if kept and not left:
            raise RecordError(f"no records with {condition}; {name} is {_occurring(kept, name)}.")
        kept = left
    return kept


def _is(record: Record, name: str, wanted: str) -> bool:
    value = option_of(record, name)
    if value is None:
        return wanted.lower() in ("all", "none", value_text(name, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(wanted) == value
        except ValueError:
            return False
    texts = [str(value), value_text(name, value)]
    return wanted in ([*texts, model_text(value)] if name == "model" else texts)


def _occurring(records: Sequence[Record], name: str) -> str:
    if name == "seed":
        return " or ".join(str(seed) for seed in sorted({record.seed for record in records}))
    return " or ".join(value_text(name, value) for (value,) in grouped(records, [name]))
