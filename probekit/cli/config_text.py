"""Rows of options as the text of a config file."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def config_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a TOML file of some rows: one row, or a plan of ``[[run]]`` tables.

    Args:
        rows: texts, numbers, truths and lists of them, by key; at least one row.
    """
    # of {head: last, seeds: 0} and {head: mean, seeds: 0}: seeds is said once, above, head in each
    shared = {k: v for k, v in rows[0].items() if all(k in r and r[k] == v for r in rows)}
    lines = ["# probekit train --config FILE", *_lines(shared)]
    if len(rows) > 1:
        for row in rows:
            own = {name: value for name, value in row.items() if name not in shared}
            lines += ["", "[[run]]", *_lines(own)]
    return "\n".join(lines) + "\n"


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in values.items()]


def _value(value: Any) -> str:
    """Return a value in TOML, whose texts are those of JSON, but for one control character."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
