"""Checks that make a record's values plain: what any JSON parser reads, and nothing else."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from probekit.base.layers import LAYER_NUMBERS
from probekit.base.markup import spelled_out
from probekit.metrics.number_metrics import ENDLESS


def text(value: Any) -> str:
    """Return text, control characters spelled out: it comes to stand in tables and figures."""
    return spelled_out(path(value))


def path(value: Any) -> str:
    """Return text as it is."""
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r}")
    return value


def truth(value: Any) -> bool:
    """Return a truth value; numbers are none."""
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, found {value!r}")
    return value


_WHOLE = 2**63
_LAYERS = LAYER_NUMBERS
"""Above these nothing counts that a run has; so no reader of records counts up to them."""


def whole(value: Any) -> int:
    """Return a whole number of 64 bits, also NumPy's, as an ``int``."""
    if isinstance(value, bool):
        raise TypeError(f"expected a whole number, found {value!r}")
    try:
        integer = operator.index(value)
    except TypeError:
        raise TypeError(f"expected a whole number, found {value!r}") from None
    if not -_WHOLE <= integer < _WHOLE:
        raise ValueError("expected a whole number of 64 bits")
    return integer


def layer(value: Any) -> int:
    """Return the number of a layer, or a depth."""
    layer_number = whole(int(value) if isinstance(value, str) else value)
    if not 0 <= layer_number < _LAYERS:
        raise ValueError(f"expected the number of a layer, found {layer_number}")
    return layer_number


def number(value: Any) -> float:
    """Return a number, also NumPy's or a 0-d tensor, as a ``float`` whose square is finite."""
    if isinstance(value, str | bool) or value is None:
        raise TypeError(f"expected a number, found {value!r}")
    real = float(value)
    if not abs(real) <= ENDLESS:
        raise ValueError(f"expected a finite number, at most {ENDLESS:g}, found {real}")
    return real


def optional(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the check that also lets None through."""
    return lambda value: None if value is None else plain(value)


def layers(value: Any) -> tuple[int, ...]:
    """Return layer numbers."""
    return tuple(map(layer, value))


def curve(value: Any) -> tuple[tuple[int, float, float], ...]:
    """Return points (step, loss, score)."""
    return tuple(
        (whole(step), number(loss), number(score))
        for step, loss, score in (tuple(point) for point in value)
    )


def by_name(plain: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """Return the check of values by name."""
    return lambda value: {text(name): plain(item) for name, item in value.items()}


def weights(value: Any) -> dict[int, float]:
    """Return weights by layer number; JSON has no integer keys, so these come back as text."""
    return {layer(number_of): number(weight) for number_of, weight in value.items()}


scores = by_name(number)
class_weights = by_name(weights)


def rates(value: Any) -> dict[str, float]:
    """Return numbers by name, in the order of the names."""
    return dict(sorted(scores(value).items()))


def confusion(value: Any) -> dict[str, Any]:
    """Return counts with the names of their rows (gold) and columns (predicted).

    Raises:
        ValueError: other keys than rows, columns and counts, or counts of another shape.
    """
    if set(value) != {"rows", "columns", "counts"}:
        raise ValueError(f"expected rows, columns and counts, found {', '.join(sorted(value))}")
    rows, columns = (tuple(text(name) for name in value[side]) for side in ("rows", "columns"))
    counts = tuple(tuple(whole(count) for count in row) for row in value["counts"])
    if [len(row) for row in counts] != [len(columns)] * len(rows):
        raise ValueError(f"expected {len(rows)} rows of {len(columns)} counts")
    return {"rows": rows, "columns": columns, "counts": counts}


def settings(value: Any) -> dict[str, Any]:
    """Return plain values (text, numbers, truth values, None, or lists of these) by name."""
    return {text(name): _setting(value[name]) for name in sorted(value)}


def seen(value: Any) -> dict[str, Any]:
    """Return what a run has seen: counts, and the names of how it is stored."""
    values = settings(value)
    return {name: _SEEN[name](item) if name in _SEEN else item for name, item in values.items()}


def _count(value: Any) -> int:
    count = whole(value)
    if count < 0:
        raise ValueError(f"expected a count, found {count}")
    return count


_SEEN: Mapping[str, Callable[[Any], Any]] = {
    "blocks": layer,
    "dtype": text,
    "format": text,
    **dict.fromkeys(("examples", "rows", "of_examples", "of_rows", "limit"), _count),
    **dict.fromkeys(("groups", "largest_group", "in_groups"), _count),
}


def _setting(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Sequence):
        return tuple(_setting(item) for item in value)
    if isinstance(value, Mapping):
        raise TypeError(f"expected a plain value, found {value!r}")
    try:
        return whole(value)
    except TypeError:
        return number(value)
